/** Time from the gateway's start to its first answer, with a log of a million events. */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import * as exchange from '../../src/events/catalogue/exchange.ts';
import { responseStored } from '../../src/events/catalogue/response.ts';
import { type EventContext, type NewEvent, streamName } from '../../src/events/event.ts';
import type { EventLog, StreamWrite } from '../../src/events/log.ts';
import { GATEWAY_KEY, launchGateway } from '../servers/gateway.ts';
import { median } from './median.ts';

export interface StartUp {
  readonly events: number;
  /** Without read models, as after `chancery views rebuild`. */
  readonly firstMs: number;
  /** With read models: the median of several starts. */
  readonly againMs: number;
  /** With a log in which nothing but earlier starts is recorded: the median of several starts. */
  readonly emptyMs: number;
}

const STARTS = 3;
const START_TIMEOUT_MS = 120_000;

/** `upstream`: the base URL of a provider that answers chat requests at once. */
export async function measureStartUp(workDir: string, upstream: string, events: number): Promise<StartUp> {
  const name = `log-of-${events}-${fingerprint()}`;
  for (const old of readdirSync(workDir)) {
    if (old.startsWith(`log-of-${events}-`) && old !== name) rmSync(join(workDir, old), { recursive: true });
  }
  const dataDir = join(workDir, name);
  await fillLog(dataDir, events);
  for (const name of readdirSync(dataDir)) if (name !== 'log') rmSync(join(dataDir, name), { recursive: true });
  const firstMs = await timeToFirstAnswer(dataDir, upstream);
  const againMs = await medianStart(dataDir, upstream);
  const empty = join(workDir, 'empty-log');
  rmSync(empty, { recursive: true, force: true });
  mkdirSync(empty);
  await timeToFirstAnswer(empty, upstream);
  return { events, firstMs, againMs, emptyMs: await medianStart(empty, upstream) };
}

async function medianStart(dataDir: string, upstream: string): Promise<number> {
  const starts: number[] = [];
  for (let i = 0; i < STARTS; i++) starts.push(await timeToFirstAnswer(dataDir, upstream));
  return median(starts);
}

async function timeToFirstAnswer(dataDir: string, upstream: string): Promise<number> {
  const body = JSON.stringify({
    model: 'openai/canned',
    messages: [{ role: 'user', content: 'Are you there?' }],
  });
  const headers = { authorization: `Bearer ${GATEWAY_KEY}`, 'content-type': 'application/json' };
  const started = performance.now();
  const gateway = await launchGateway({ dataDir, providers: { OPENAI: upstream } });
  try {
    for (;;) {
      const response = await fetch(`${gateway.origin}/v1/chat/completions`, { method: 'POST', headers, body }).catch(
        () => undefined,
      );
      const status = response?.status;
      await response?.arrayBuffer().catch(() => undefined);
      const took = performance.now() - started;
      if (status === 200) return took;
      if (gateway.end() !== undefined)
        throw new Error(`the gateway ended by ${gateway.end()}: see ${dataDir}/gateway.log`);
      if (took > START_TIMEOUT_MS)
        throw new Error(
          `no answer within ${START_TIMEOUT_MS / 1000} s of the start (last status: ${status ?? 'none'})`,
        );
      await delay(5);
    }
  } finally {
    await gateway.stop();
  }
}

/** Hash of all sources that determine the log's content, so that a kept log never has an older format. */
function fingerprint(): string {
  const hash = createHash('sha256').update(readFileSync(new URL(import.meta.url)));
  const sources = fileURLToPath(new URL('../../src/events/', import.meta.url));
  for (const name of readdirSync(sources, { recursive: true, encoding: 'utf8' }).sort()) {
    if (name.endsWith('.ts')) hash.update(readFileSync(join(sources, name)));
  }
  return hash.digest('hex').slice(0, 8);
}

/** Writes the log once; later runs use it again. */
async function fillLog(dataDir: string, events: number): Promise<void> {
  if (existsSync(join(dataDir, 'log'))) return;
  const { openLog } = await import('../../src/events/open-log.ts');
  const unfinished = `${dataDir}.unfinished`;
  rmSync(unfinished, { recursive: true, force: true });
  mkdirSync(unfinished, { recursive: true });
  const log: EventLog = await openLog(pathToFileURL(join(unfinished, 'log')).href, { durability: 'relaxed' });
  const started = performance.now();
  let written = 0;
  let exchanges = 0;
  while (written < events) {
    const writes: StreamWrite[] = [];
    for (let i = 0; i < 200 && written < events; i++) {
      for (const write of exchangeWrites(exchanges++)) {
        writes.push(write);
        written += write.events.length;
      }
    }
    await log.append(writes, { until: 'written' });
  }
  await log.close();
  renameSync(unfinished, dataDir);
  console.error(`wrote a log of ${written} events in ${((performance.now() - started) / 1000).toFixed(1)} s`);
}

const PROMPT = 'Which records would tell me who owned the mill at the lower bridge between the two surveys?';
const ANSWER = 'Stone river lantern harbor window maple. '.repeat(5);

/** One exchange as the gateway records it: every fourth is a stream of 33 chunks, every eighth a stored response. */
function exchangeWrites(index: number): StreamWrite[] {
  const id = `bench-${index.toString().padStart(9, '0')}`;
  const context: EventContext = { actor: 'master', requestId: id, correlationId: id };
  const stream = index % 4 === 0;
  const stored = index % 8 === 1;
  const chunk = Buffer.from(
    JSON.stringify({
      id,
      object: 'chat.completion',
      choices: [{ index: 0, message: { role: 'assistant', content: ANSWER } }],
    }),
  );
  const events: NewEvent[] = [
    exchange.requestReceived.create(
      {
        dialect: stored ? 'responses' : 'chat',
        method: 'POST',
        path: stored ? '/v1/responses' : '/v1/chat/completions',
        headers: { 'content-type': 'application/json', 'user-agent': 'bench' },
        model: 'openai/simulated-small',
        stream,
        authMethod: 'master_key',
        capture: 'full',
      },
      context,
      Buffer.from(JSON.stringify({ model: 'openai/simulated-small', messages: [{ role: 'user', content: PROMPT }] })),
    ),
    exchange.modelResolved.create(
      { requested: 'openai/simulated-small', provider: 'openai', providerType: 'openai', model: 'simulated-small' },
      context,
    ),
    exchange.attemptStarted.create(
      {
        attempt: 1,
        kind: 'primary',
        provider: 'openai',
        providerType: 'openai',
        model: 'simulated-small',
        dialect: 'chat',
      },
      context,
    ),
  ];
  const chunks = stream ? 33 : 1;
  for (let i = 0; i < chunks; i++) {
    events.push(
      exchange.chunkReceived.create({ attempt: 1, index: i }, context, stream ? chunk.subarray(0, 200) : chunk),
    );
  }
  events.push(
    exchange.exchangeCompleted.create(
      {
        status: 200,
        attempt: 1,
        provider: 'openai',
        model: 'simulated-small',
        finishReason: 'stop',
        chunks,
        bytes: chunk.length,
        durationMs: 12,
      },
      context,
    ),
    exchange.usageRecorded.create(
      {
        provider: 'openai',
        providerType: 'openai',
        model: 'simulated-small',
        endpoint: '/v1/chat/completions',
        inputTokens: 20,
        outputTokens: 30,
        totalTokens: 50,
        cachedInputTokens: 0,
        cacheWriteInputTokens: null,
        cacheWrite1hInputTokens: null,
        reasoningTokens: 0,
        audioInputTokens: null,
        audioOutputTokens: null,
        imageInputTokens: null,
        imageOutputTokens: null,
        acceptedPredictionTokens: null,
        rejectedPredictionTokens: null,
        source: 'provider',
        raw: null,
        inputCost: null,
        outputCost: null,
        totalCost: null,
      },
      context,
    ),
  );
  const writes: StreamWrite[] = [{ stream: streamName('exchange', id), events, expectedRevision: 'noStream' }];
  if (stored)
    writes.push({
      stream: streamName('response', `resp_${id}`),
      events: [storedResponse(id, context)],
      expectedRevision: 'noStream',
    });
  return writes;
}

function storedResponse(id: string, context: EventContext): NewEvent {
  const content = [{ type: 'output_text', text: ANSWER, annotations: [] }];
  const response = {
    id: `resp_${id}`,
    object: 'response',
    status: 'completed',
    model: 'simulated-small',
    output: [{ id: `msg_${id}`, type: 'message', role: 'assistant', status: 'completed', content }],
  };
  const input_items = [
    { id: `msg_in_${id}`, type: 'message', role: 'user', content: [{ type: 'input_text', text: PROMPT }] },
  ];
  return responseStored.create(
    {
      status: 'completed',
      exchangeId: id,
      provider: 'openai',
      providerType: 'openai',
      model: 'simulated-small',
      native: true,
      previousResponseId: null,
    },
    context,
    Buffer.from(JSON.stringify({ response, input_items })),
  );
}

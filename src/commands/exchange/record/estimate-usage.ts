/**
 * Estimates the tokens of an answer whose provider did not report them: the client left before the end, the stream
 * broke, or the report is missing or cannot be read. The record is read again only for streams of these cases.
 */
import { chunkReceived, requestBodyReceived } from '../../../events/catalogue/exchange.ts';
import type { EventLog } from '../../../events/log.ts';
import { whenNewerEvent } from '../../../events/newest-event.ts';
import { streamFormatOf } from '../../../providers/stream-splitter.ts';
import type { ModelRequest } from '../../model-request/model-request.ts';
import { parseChunk } from '../../model-request/parse-chunk.ts';
import type { ParsedRequest } from '../../model-request/parsed-request.ts';
import { promptTokens } from '../../model-request/token-estimate.ts';
import type { EstimatedTokens } from '../../model-request/units.ts';
import { isCounted, isReported, type TokenUsage } from '../../model-request/usage.ts';
import type { ExchangeDialect } from '../dialect.ts';
import type { ExchangeRecord } from '../exchange-record.ts';
import type { AttemptEnd } from '../outcome.ts';
import type { Plan } from '../plan.ts';
import { OutputCount } from './output-count.ts';

export interface Estimating {
  readonly dialect: Pick<ExchangeDialect, 'mayBeFree'>;
  readonly parsedRequest: Pick<ParsedRequest, 'json'>;
  readonly request: Pick<ModelRequest, 'method'>;
  readonly record: Pick<ExchangeRecord, 'stream' | 'flush'>;
  readonly log: EventLog;
}

/**
 * A read may not see an append that was made just before. The stream is read up to this often until all chunks are
 * there.
 */
const MAX_READS = 4;

/** Undefined when the usage that the provider reported is charged. */
export async function estimateUsage(end: AttemptEnd, exchange: Estimating): Promise<EstimatedTokens | undefined> {
  const { relay, received, plan } = end;
  const { calls = 1 } = plan;
  const usage = relay.usage();
  const hasEnded = end.kind === 'whole' || end.kind === 'streamed' || (end.kind === 'blocked' && end.isWhole);
  if (hasEnded && isReported(usage)) return undefined;
  const isStream =
    end.kind !== 'whole' && !(end.kind === 'streamed' && streamFormatOf(end.reply.headers) === undefined);
  if (!isStream && received.outputTokens === undefined) return undefined;
  if (end.kind === 'abandoned' && end.notCalled === true) return undefined;
  if (relay.deferredWork?.() !== undefined) return undefined;
  // On a provider's own API, a model's answer is recognised by the model that it names.
  const { dialect, request } = exchange;
  if (dialect.mayBeFree && (request.method !== 'POST' || relay.model?.() === undefined)) return undefined;
  if (received.chunks === 0) {
    return end.kind === 'abandoned'
      ? { inputTokens: calls * promptTokens(sentTo(plan) ?? exchange.parsedRequest.json), outputTokens: 0 }
      : undefined;
  }
  const isUploaded = plan.body !== undefined && !Buffer.isBuffer(plan.body);
  const { outputTokens, upload } =
    received.outputTokens === undefined || isUploaded
      ? await readRecorded(end, exchange)
      : { outputTokens: received.outputTokens, upload: '' };
  const inputTokens = calls * promptTokens(sentTo(plan) ?? parseChunk(upload) ?? exchange.parsedRequest.json);
  return missingTokens(usage, inputTokens, outputTokens, hasEnded);
}

/**
 * The tokens to charge instead of the reported usage; undefined when the report is charged. A side that the provider
 * did not count is charged by the estimate, the other one as it was reported. A provider that reports during the stream
 * has reported only the beginning of a stream that ended early: its report is charged unless the estimated output is
 * more than twice as large.
 */
export function missingTokens(
  usage: TokenUsage,
  inputTokens: number,
  outputTokens: number,
  hasEnded = false,
): EstimatedTokens | undefined {
  const isMore = outputTokens > 2 * (usage.outputTokens ?? 0);
  const output = usage.outputTokens === null || (!hasEnded && isMore) ? outputTokens : usage.outputTokens;
  const isCharged = isCounted(usage) && output === (usage.outputTokens ?? 0);
  return isCharged ? undefined : { inputTokens: usage.inputTokens ?? inputTokens, outputTokens: output };
}

/** The body that the provider got, with earlier turns; undefined for one that was sent piece by piece. */
function sentTo({ body }: Plan): unknown {
  return Buffer.isBuffer(body) ? parseChunk(body.toString()) : undefined;
}

interface Recorded {
  readonly outputTokens: number;
  /** The recorded part of a request body that was sent piece by piece. */
  readonly upload: string;
}

async function readRecorded(end: AttemptEnd, { record, log }: Estimating): Promise<Recorded> {
  const { attempt, plan, received } = end;
  await record.flush('written');
  for (let reads = 1; ; reads++) {
    const output = new OutputCount(plan.dialect, plan.calls);
    const upload: Uint8Array[] = [];
    let chunks = 0;
    let newest: bigint | undefined;
    for await (const event of log.readStream(record.stream)) {
      newest = event.revision;
      if (event.type === requestBodyReceived.type && event.body !== undefined) upload.push(event.body);
      if (event.type !== chunkReceived.type) continue;
      if (chunkReceived.data.parse(event.data).attempt !== attempt) continue;
      chunks += 1;
      output.add(event.body);
    }
    if (chunks >= received.chunks || reads === MAX_READS) {
      const outputTokens = received.outputTokens ?? output.tokens(received);
      return { outputTokens, upload: Buffer.concat(upload).toString() };
    }
    await whenNewerEvent(record.stream, newest, log);
  }
}

import fc from 'fast-check';
import type { FastifyInstance } from 'fastify';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createReadAudit } from '../../src/commands/audit/audit-reads.ts';
import { Refusal } from '../../src/commands/refusal.ts';
import { everything } from '../../src/commands/visibility.ts';
import { placeholdersAssigned } from '../../src/events/catalogue/guardrail.ts';
import { streamName } from '../../src/events/event.ts';
import type { EventLog } from '../../src/events/log.ts';
import { createLiveLogs, type LiveLogs, type LiveLogsOptions } from '../../src/http/admin/live/logs.ts';
import { validateBySchema } from '../../src/http/api/validation.ts';
import { refusalHeaders } from '../../src/http/errors.ts';
import { inFlight } from '../../src/projections/in-flight.ts';
import { createProjectionRunner, type ProjectionRunner } from '../../src/projections/runner.ts';
import { append, appendWhole, chatChunk, exchangeOf } from '../projections/exchange-history.ts';
import { engines, openTestLog, type TestLog } from '../projections/log-engines.ts';
import { bareServer } from '../support/bare-server.ts';
import { countOf } from '../support/seed.ts';
import { type LiveEvent, type LiveListener, listen } from './live-listener.ts';

let opened: TestLog;
let log: EventLog;
let app: FastifyInstance;
let live: LiveLogs;
let runner: ProjectionRunner;
let url: string;
let listeners: LiveListener[];
/** Records reads in a log of its own, so that the log of a test holds only the events of the test. */
let reads: TestLog;

async function start(options: Partial<LiveLogsOptions> = {}) {
  runner = createProjectionRunner(log);
  const flying = runner.run(inFlight);
  app = bareServer();
  app.setValidatorCompiler(validateBySchema);
  app.setErrorHandler((error, _request, reply) => {
    if (!(error instanceof Refusal)) throw error;
    reply.code(error.status).headers(refusalHeaders(error)).send(error.envelope());
  });
  app.decorateRequest('caller', undefined);
  app.addHook('onRequest', async (request) => {
    request.caller = { actor: 'master', authMethod: 'master_key', visibility: everything };
  });
  live = createLiveLogs({
    log,
    audit: createReadAudit(reads.log),
    inFlight: flying,
    enabled: true,
    isStillAdministrator: () => true,
    ...options,
  });
  app.register(async (admin) => live.register(admin), { prefix: '/admin' });
  url = await app.listen({ host: '127.0.0.1', port: 0 });
}

async function tuneIn(query: Record<string, string> = {}, headers: Record<string, string> = {}) {
  const listener = await listen(url, query, headers);
  listeners.push(listener);
  expect(listener.response.statusCode).toBe(200);
  await listener.until('heartbeat');
  return listener;
}

const names = (events: LiveEvent[]) => events.map(({ event }) => event);

describe.each(engines)('live logs of a log in %s', (engine) => {
  beforeEach(async () => {
    opened = await openTestLog(engine);
    ({ log } = opened);
    reads = await openTestLog('memory');
    listeners = [];
  });
  afterEach(async () => {
    for (const listener of listeners) listener.leave();
    await app.close();
    await runner.close();
    await opened.discard();
    await reads.discard();
  });

  describe('a request in progress', () => {
    test('is shown from its start to its cost', async () => {
      await start();
      const listener = await tuneIn();
      const exchange = exchangeOf('1');
      await append(log, exchange.stream, exchange.received);
      await append(log, exchange.stream, exchange.resolved, exchange.attempt());
      await append(log, exchange.stream, exchange.words(0, 'Hello'));
      await append(log, exchange.stream, exchange.words(1, ' world'), exchange.usage, exchange.completed);
      const events = await listener.atLeast(6);
      expect(names(events)).toEqual([
        'audit.started',
        'audit.updated',
        'audit.updated',
        'audit.stream',
        'usage.completed',
        'audit.completed',
      ]);
      const [started, resolved, attempted, stream, usage, completed] = events.map(({ data }) => data);
      expect(started).toMatchObject({
        type: 'audit.started',
        request_id: 'req-1',
        data: {
          id: '1',
          request_id: 'req-1',
          requested_model: 'local/tiny',
          auth_method: 'master_key',
          client_ip: '127.0.0.1',
          method: 'POST',
          path: '/v1/chat/completions',
          user_path: '/',
          stream: true,
          _live_state: 'audit.started',
          _live_pending: true,
          data: { user_agent: 'test/1', request_headers: { authorization: '[REDACTED]' } },
        },
      });
      expect(started?.data.data).not.toHaveProperty('request_body');
      expect(resolved?.data).toMatchObject({
        resolved_model: 'local/tiny',
        provider: 'llamacpp',
        provider_name: 'local',
        data: { request_body: { model: 'local/tiny' } },
      });
      expect(attempted?.data.data.attempts).toMatchObject([{ seq: 1, kind: 'primary', provider_name: 'local' }]);
      expect(stream?.data.data).toMatchObject({ response_body: 'Hello', response_body_partial: true });
      expect(usage?.data).toMatchObject({
        exchange_id: '1',
        input_tokens: 10,
        output_tokens: 5,
        uncached_input_tokens: 6,
        provider: 'llamacpp',
        provider_name: 'local',
      });
      expect(completed?.data).toMatchObject({
        status_code: 200,
        duration_ns: 12_500_000,
        _live_pending: false,
        data: { response_body: 'Hello world', attempts: [{ success: true, status_code: 200 }] },
      });
      expect(completed?.data.data).not.toHaveProperty('response_body_partial');
    });

    test('with view=rows is sent without headers and bodies, with the end of its answer', async () => {
      await start();
      const listener = await tuneIn({ view: 'rows' });
      const exchange = exchangeOf('1', { body: JSON.stringify({ prompt: 'a secret plan' }) });
      await append(log, exchange.stream, exchange.received, exchange.resolved, exchange.attempt());
      await append(log, exchange.stream, exchange.words(0, '\u{1F600}'.repeat(3000)));
      await append(log, exchange.stream, exchange.words(1, ' the end'), exchange.usage, exchange.completed);
      const events = await listener.atLeast(6);
      expect(names(events)).toEqual([
        'audit.started',
        'audit.updated',
        'audit.updated',
        'audit.stream',
        'usage.completed',
        'audit.completed',
      ]);
      const [started, , attempted, stream, usage, completed] = events.map(({ data }) => data.data);
      expect(started).toMatchObject({ id: '1', request_id: 'req-1', path: '/v1/chat/completions', attempts: 0 });
      expect(attempted).toMatchObject({ resolved_model: 'local/tiny', attempts: 1, _live_pending: true });
      expect(stream).toMatchObject({ answer_tail: '\u{1F600}'.repeat(2048), answer_length: 6000 });
      expect(usage).toMatchObject({ exchange_id: '1', input_tokens: 10, output_tokens: 5 });
      expect(completed).toMatchObject({
        ...{ outcome: 'completed', status_code: 200, duration_ns: 12_500_000, answer_length: 6008 },
        _live_pending: false,
      });
      // 4096 characters end in the middle of one.
      expect(completed?.answer_tail).toBe(`${'\u{1F600}'.repeat(2044)} the end`);
      expect(JSON.stringify(events)).not.toMatch(/secret plan|REDACTED|raw_data/);
    });

    test('with view=rows has its outcome', async () => {
      await start();
      const listener = await tuneIn({ view: 'rows', types: 'audit.failed,audit.completed' });
      const one = exchangeOf('1');
      await append(log, one.stream, one.received, one.refused);
      const two = exchangeOf('2');
      await append(log, two.stream, two.received, two.failed);
      const three = exchangeOf('3');
      await append(log, three.stream, three.received, three.left);
      const events = await listener.atLeast(3);
      expect(events.map(({ data }) => data.data.outcome)).toEqual(['refused', 'failed', 'disconnected']);
    });

    test('in flight at a connection with view=rows is sent in the same form', async () => {
      await start();
      const exchange = exchangeOf('1');
      await append(log, exchange.stream, exchange.received, exchange.resolved, exchange.attempt());
      const listener = await tuneIn({ view: 'rows' });
      const [first] = await listener.atLeast(1);
      expect(first?.id).toBeUndefined();
      expect(first?.data.data).toMatchObject({ id: '1', resolved_model: 'local/tiny', attempts: 1 });
      expect(first?.data.data).not.toHaveProperty('data');
    });

    test('with guardrails shows its workflow, their verdicts, and what the client receives', async () => {
      await start();
      const listener = await tuneIn();
      const workflow = { id: 'w-1', version: 3, scope: 'path:/team', off: ['cache' as const] };
      const exchange = exchangeOf('1', { workflow });
      const restore = placeholdersAssigned.create(
        { count: 1 },
        exchange.context,
        Buffer.from('[{"value":"a@b.example"}]'),
      );
      await append(log, exchange.stream, exchange.received, exchange.resolved);
      await append(log, exchange.stream, exchange.applied('warn', { phase: 'prompt' }, '{"changed":1}'), restore);
      await append(
        log,
        exchange.stream,
        exchange.attempt(1, true),
        exchange.words(0, 'raw '),
        exchange.words(1, 'text'),
      );
      await append(log, exchange.stream, exchange.frame(chatChunk('shown')));
      await append(
        log,
        exchange.stream,
        exchange.applied('block', { phase: 'stream', attempt: 1 }),
        exchange.completed,
      );
      const events = await listener.atLeast(7);
      expect(names(events)).toEqual([
        'audit.started',
        'audit.updated',
        'audit.updated',
        'audit.updated',
        'audit.stream',
        'audit.updated',
        'audit.completed',
      ]);
      const [started, , prompted, , stream, , completed] = events.map(({ data }) => data.data);
      for (const preview of [started, completed]) {
        expect(preview).toMatchObject({
          workflow_version_id: 'w-1',
          data: {
            ...{ workflow_version: 3, workflow_scope: 'path:/team' },
            workflow_features: {
              cache: false,
              audit: true,
              usage: true,
              budget: true,
              guardrails: true,
              failover: true,
            },
          },
        });
      }
      expect(started.data).not.toHaveProperty('guardrails');
      const first = { seq: 1, phase: 'prompt', instance: 'mask', type: 'pii', action: 'warn', code: 'warn_code' };
      expect(prompted.data).toMatchObject({
        ...{ guardrails: [{ ...first, edited: true, target: 'request' }], guardrail_verdict: 'warn' },
        guardrails_edited: true,
      });
      expect(stream.data).toMatchObject({ response_body: 'shown', response_body_partial: true });
      expect(completed.data).toMatchObject({
        ...{ response_body: 'shown', guardrail_verdict: 'block' },
        guardrails: [first, { seq: 2, phase: 'stream', attempt: 1, action: 'block', target: 'response' }],
      });
      for (const { data } of events) {
        expect(JSON.stringify(data)).not.toContain('raw');
        expect(JSON.stringify(data)).not.toContain('a@b.example');
      }
    });

    test('of a guarded attempt that failed shows only the frames of the next one', async () => {
      await start();
      const listener = await tuneIn();
      const exchange = exchangeOf('1');
      await append(log, exchange.stream, exchange.received, exchange.resolved, exchange.attempt(1, true));
      await append(log, exchange.stream, exchange.frame(chatChunk('lost')), exchange.attemptFailed(1));
      await append(
        log,
        exchange.stream,
        exchange.attempt(2),
        exchange.frame(chatChunk('stray')),
        exchange.words(0, 'plain'),
      );
      await append(log, exchange.stream, exchange.completed);
      await listener.until('audit.completed');
      expect(listener.events.at(-1)?.data.data.data).toMatchObject({ response_body: 'plain' });
    });

    test('that a guardrail answered shows that answer', async () => {
      await start();
      const listener = await tuneIn();
      const { stream, received, resolved, completed, applied } = exchangeOf('1');
      const answer = Buffer.from('{"answer":"no"}');
      await append(log, stream, received, resolved, applied('respond'), { ...completed, body: answer });
      await listener.until('audit.completed');
      const { data } = listener.events.at(-1)?.data ?? {};
      expect(data).toMatchObject({ data: { response_body: { answer: 'no' }, guardrail_verdict: 'respond' } });
    });

    test('that is refused, fails or is abandoned ends in audit.failed with the reason', async () => {
      await start();
      const listener = await tuneIn({ types: 'audit.failed' });
      const [refused, failed, left] = [exchangeOf('r'), exchangeOf('f'), exchangeOf('l')];
      await append(log, refused.stream, refused.received, refused.refused);
      await append(
        log,
        failed.stream,
        failed.received,
        failed.resolved,
        failed.attempt(),
        failed.attemptFailed(),
        failed.failed,
      );
      await append(log, left.stream, left.received, left.resolved, left.attempt(), left.words(0, 'He'), left.left);
      const events = (await listener.atLeast(3)).map(({ data }) => data.data);
      expect(events).toMatchObject([
        {
          id: 'r',
          status_code: 404,
          error_type: 'not_found_error',
          error_message: 'no such model',
          data: { error_code: 'model_not_found' },
        },
        {
          id: 'f',
          status_code: 502,
          error_type: 'provider_error',
          data: { attempts: [{ success: false, status_code: 500 }] },
        },
        { id: 'l', status_code: 499, error_type: 'client_disconnected', data: { response_body: 'He' } },
      ]);
      expect(events.every((one) => one._live_pending === false)).toBe(true);
    });

    test('is shown up to the last chunk when its provider pauses', async () => {
      await start();
      const listener = await tuneIn({ types: 'audit.stream' });
      const exchange = exchangeOf('1');
      const words = ['a', 'b', 'c'].map((text, index) => exchange.words(index, text));
      await append(log, exchange.stream, exchange.received, exchange.resolved, exchange.attempt(), ...words);
      const [first, second] = await listener.atLeast(2);
      expect(first?.data.data.data.response_body).toBe('a');
      expect(second?.data.data.data.response_body).toBe('abc');
      expect(listener.news()).toHaveLength(2);
    });

    test('omits large bodies and marks them as omitted', async () => {
      await start();
      const listener = await tuneIn({ types: 'audit' });
      const exchange = exchangeOf('1', { body: JSON.stringify({ input: 'x'.repeat(70_000) }), stream: false });
      const answer = exchange.json({ choices: [{ message: { content: 'y'.repeat(70_000) } }] });
      await append(
        log,
        exchange.stream,
        exchange.received,
        exchange.resolved,
        exchange.attempt(),
        answer,
        exchange.completed,
      );
      const { data } = (await listener.until('audit.completed')).data.data;
      expect(data).toMatchObject({ request_body_too_big_to_handle: true, response_body_too_big_to_handle: true });
      expect(data).not.toHaveProperty('request_body');
      expect(data).not.toHaveProperty('response_body');
    });

    test('shows a JSON answer as JSON', async () => {
      await start();
      const listener = await tuneIn({ types: 'audit' });
      const exchange = exchangeOf('1', { stream: false });
      const answer = { object: 'chat.completion', choices: [{ message: { content: 'hi' } }] };
      await append(log, exchange.stream, exchange.received, exchange.resolved, exchange.attempt());
      await append(log, exchange.stream, exchange.json(answer), exchange.completed);
      expect((await listener.until('audit.completed')).data.data.data.response_body).toEqual(answer);
      expect(names(listener.news())).not.toContain('audit.stream');
    });
  });

  describe('a new client', () => {
    test('receives the workflow of what is in flight', async () => {
      await start();
      const { stream, received, resolved, applied } = exchangeOf('1', {
        workflow: { id: 'w-1', version: 3, scope: 'global' },
      });
      await append(log, stream, received, resolved, applied('warn'));
      const listener = await tuneIn();
      expect(listener.events[0]?.data.data).toMatchObject({
        workflow_version_id: 'w-1',
        data: { workflow_version: 3, workflow_scope: 'global', workflow_features: { cache: true } },
      });
    });

    test('receives what is in flight, then only new events', async () => {
      await start();
      const [old, open, next] = [exchangeOf('old'), exchangeOf('open'), exchangeOf('next')];
      await appendWhole(log, old, 'x');
      await append(log, open.stream, open.received, open.resolved, open.attempt());
      const listener = await tuneIn();
      await append(log, open.stream, open.words(0, 'hi'));
      await append(log, next.stream, next.received);
      const events = await listener.atLeast(3);
      expect(events.map(({ event, data }) => [event, data.request_id])).toEqual([
        ['audit.updated', 'req-open'],
        ['audit.stream', 'req-open'],
        ['audit.started', 'req-next'],
      ]);
      expect(events[0]?.id).toBeUndefined();
      expect(events[0]?.data.data).toMatchObject({ id: 'open', resolved_model: 'local/tiny', _live_pending: true });
      expect(events[1]?.data.data).toMatchObject({ requested_model: 'local/tiny', data: { response_body: 'hi' } });
    });

    test('with cursor=0 receives all events from the beginning, once, and then live ones', async () => {
      await start();
      for (let i = 0; i < 50; i++) await appendWhole(log, exchangeOf(`old-${i}`), 'x');
      const listener = await tuneIn({ cursor: '0', types: 'audit.completed' });
      for (let i = 0; i < 50; i++) await appendWhole(log, exchangeOf(`new-${i}`), 'x');
      await listener.until('audit.completed', 'req-new-49');
      const ids = listener.news().map(({ data }) => data.data.id);
      expect(ids).toEqual(
        [...Array(50).keys()].map((i) => `old-${i}`).concat([...Array(50).keys()].map((i) => `new-${i}`)),
      );
    });

    test('that reconnects with its last id misses and repeats nothing, by header or by query', async () => {
      await start();
      const first = await tuneIn({ types: 'audit.completed' });
      await appendWhole(log, exchangeOf('1'), 'x');
      await first.until('audit.completed');
      const lastId = first.lastId() ?? '';
      first.leave();
      await appendWhole(log, exchangeOf('2'), 'x');
      const byHeader = await tuneIn({ types: 'audit.completed', cursor: '0' }, { 'last-event-id': lastId });
      const byQuery = await tuneIn({ types: 'audit.completed', cursor: lastId });
      await appendWhole(log, exchangeOf('3'), 'x');
      for (const listener of [byHeader, byQuery]) {
        await listener.until('audit.completed', 'req-3');
        expect(listener.news().map(({ data }) => data.data.id)).toEqual(['2', '3']);
      }
    });

    test('in the middle of a request receives the rest of it whole', async () => {
      await start();
      const exchange = exchangeOf('1');
      const { position } = await append(
        log,
        exchange.stream,
        exchange.received,
        exchange.resolved,
        exchange.attempt(),
        exchange.words(0, 'first '),
      );
      await append(log, exchange.stream, exchange.words(1, 'second'), exchange.usage, exchange.completed);
      const listener = await tuneIn({ cursor: position });
      expect((await listener.until('audit.completed')).data.data).toMatchObject({
        requested_model: 'local/tiny',
        resolved_model: 'local/tiny',
        data: { response_body: 'first second', request_body: { model: 'local/tiny' } },
      });
    });

    test('with a cursor beyond the head of the log receives a reset', async () => {
      await start();
      const open = exchangeOf('open');
      await append(log, open.stream, open.received);
      const listener = await tuneIn({ cursor: '0000000000999999' });
      await append(log, exchangeOf('next').stream, exchangeOf('next').received);
      const events = await listener.atLeast(3);
      expect(events.map(({ event, data }) => [event, data.request_id])).toEqual([
        ['reset', undefined],
        ['audit.started', 'req-open'],
        ['audit.started', 'req-next'],
      ]);
      expect(events[0]?.id).toBe(await log.head().then((head) => head.replace(/2$/, '1')));
    });

    test.each(['abc', '-1', '1.5', '99999999999999999999', '1 2', '%'])(
      'at the cursor "%s" is refused',
      async (cursor) => {
        await start();
        await append(log, exchangeOf('1').stream, exchangeOf('1').received);
        const { response } = await listen(url, { cursor });
        expect(response.statusCode).toBe(400);
        const byHeader = await listen(url, {}, { 'last-event-id': cursor });
        expect(byHeader.response.statusCode).toBe(400);
      },
    );

    test('is refused with the reason when live logs are switched off or full', async () => {
      await start({ maxClients: 1 });
      await tuneIn();
      const { response } = await listen(url);
      expect(response.statusCode).toBe(429);
      expect(await fetch(`${url}/admin/live/logs`, { method: 'HEAD' }).then(({ status }) => status)).toBe(404);
      await app.close();
      await runner.close();

      await start({ enabled: false });
      const off = await fetch(`${url}/admin/live/logs`, { headers: { connection: 'close' } });
      expect(off.status).toBe(503);
      expect(off.headers.get('x-should-retry')).toBe('false');
      expect(await off.json()).toMatchObject({ error: { code: 'feature_unavailable', type: 'invalid_request_error' } });
    });

    test('receives headers that keep proxies from buffering', async () => {
      await start();
      const { response } = await tuneIn();
      expect(response.headers['content-type']).toMatch(/^text\/event-stream/);
      expect(response.headers['cache-control']).toBe('no-cache, no-transform');
      expect(response.headers['x-accel-buffering']).toBe('no');
    });
  });

  describe('a heartbeat', () => {
    test('carries the head position, so that a filtered client resumes at the right position', async () => {
      await start({ heartbeatSeconds: 0.02 });
      const listener = await tuneIn({ types: 'usage' });
      const exchange = exchangeOf('1');
      const { position } = await append(log, exchange.stream, exchange.received);
      await log.append([
        {
          stream: streamName('gateway', 'g'),
          events: [{ type: 'gateway.other', schema: 1, data: {}, context: { actor: 'system' } }],
          expectedRevision: 'any',
        },
      ]);
      await expect.poll(() => listener.lastId()).toBe(await log.head());
      expect((await log.head()) > position).toBe(true);
      expect(listener.news()).toHaveLength(0);
      expect(listener.events.at(-1)?.data).toMatchObject({ type: 'heartbeat', seq: await log.head() });
    });
  });

  describe('filters', () => {
    const all = async () => {
      const [chat, responses] = [
        exchangeOf('c', { userPath: '/team/a/bob', actor: 'key:k-1' }),
        exchangeOf('r', { path: '/v1/responses', userPath: '/team/ab', requestId: 'mine' }),
      ];
      await appendWhole(log, chat, 'x');
      await appendWhole(log, responses, 'y');
      await append(log, exchangeOf('end').stream, exchangeOf('end').received);
    };
    const cases: [string, Record<string, string>, string[]][] = [
      ['types=usage', { types: 'usage' }, ['usage.completed c', 'usage.completed r']],
      [
        'types=audit.started,usage',
        { types: 'audit.started,usage' },
        ['audit.started c', 'usage.completed c', 'audit.started r', 'usage.completed r', 'audit.started end'],
      ],
      ['a raw event type', { types: 'request.' }, ['audit.started c', 'audit.started r', 'audit.started end']],
      ['the request id', { request_id: 'mine', types: 'audit.completed' }, ['audit.completed r']],
      ['the exchange id', { request: 'c', types: 'audit.completed' }, ['audit.completed c']],
      ['the path', { path: '/v1/resp', types: 'usage,audit.completed' }, ['usage.completed r', 'audit.completed r']],
      ['the stream', { stream: 'exchange-c', types: 'usage' }, ['usage.completed c']],
      ['the user path, as a subtree', { user_path: '/team/a', types: 'usage' }, ['usage.completed c']],
      ['the key', { auth_key_id: 'k-1', types: 'audit.started,usage' }, ['audit.started c', 'usage.completed c']],
      ['a part of the key', { auth_key_id: 'k-' }, []],
      ['an unknown type', { types: 'nonsense' }, []],
      ['an empty list', { types: '' }, []],
      ['another stream', { stream: 'provider-x' }, []],
    ];
    test.each(cases)('%s: the same from history and live', async (_name, query, expected) => {
      await start({ heartbeatSeconds: 0.02 });
      const fromNow = await tuneIn(query);
      await all();
      const fromStart = await tuneIn({ ...query, cursor: '0' });
      const head = await log.head();
      for (const listener of [fromNow, fromStart]) {
        await expect.poll(() => listener.lastId()).toBe(head);
        expect(listener.news().map(({ event, data }) => `${event} ${data.data.exchange_id ?? data.data.id}`)).toEqual(
          expected,
        );
      }
    });

    test('view=events sends every event as it was recorded, also by path', async () => {
      await start({ heartbeatSeconds: 0.02 });
      const raw = await tuneIn({ raw: 'true' });
      const byPath = await tuneIn({ view: 'events', path: '/v1/responses' });
      const usage = await tuneIn({ view: 'events', types: 'usage' });
      await all();
      const stream = streamName('provider', 'p');
      await log.append([
        {
          stream,
          events: [{ type: 'provider.became_available', schema: 1, data: {}, context: { actor: 'system' } }],
          expectedRevision: 'any',
        },
      ]);
      const events = await raw.atLeast(14);
      expect(names(events).slice(0, 6)).toEqual([
        'request.received',
        'model.resolved',
        'attempt.started',
        'chunk.received',
        'usage.recorded',
        'exchange.completed',
      ]);
      expect(events.at(-1)?.data.data).toMatchObject({
        type: 'provider.became_available',
        stream: 'provider-p',
        revision: '0',
      });
      expect(events[0]?.data.data).toMatchObject({
        stream: 'exchange-c',
        body: '{"model":"local/tiny"}',
        requestId: 'req-c',
      });
      expect((await byPath.atLeast(6)).every(({ data }) => data.request_id === 'mine')).toBe(true);
      expect(names(await usage.atLeast(2))).toEqual(['usage.recorded', 'usage.recorded']);
    });

    test('view=events finds the path of a request that began before the client connected', async () => {
      await start();
      const exchange = exchangeOf('1', { path: '/v1/embeddings' });
      await append(log, exchange.stream, exchange.received);
      const listener = await tuneIn({ view: 'events', path: '/v1/emb' });
      await append(log, exchange.stream, exchange.resolved);
      expect(names(await listener.atLeast(1))).toEqual(['model.resolved']);
    });

    test.each([{ view: 'all' }, { raw: 'yes' }, { user_path: '/a/../b' }, { user_path: '/a b' }])(
      '%o is refused',
      async (query) => {
        await start();
        const response = await fetch(`${url}/admin/live/logs?${new URLSearchParams(Object.entries(query))}`);
        expect(response.status).toBe(400);
        expect(await response.json()).toMatchObject({ error: { param: Object.keys(query)[0] } });
      },
    );
  });

  describe('the end of a connection', () => {
    test('frees everything: no client is left, and the log is not read', async () => {
      await start();
      const listener = await tuneIn();
      expect(live.clients()).toBe(1);
      listener.leave();
      await expect.poll(() => live.clients()).toBe(0);
      await appendWhole(log, exchangeOf('1'), 'x');
      const again = await tuneIn({ cursor: '0', types: 'audit.completed' });
      await again.until('audit.completed');
    });

    test('is announced to all clients when the gateway stops', async () => {
      await start();
      const listener = await tuneIn();
      await app.close();
      await listener.ended;
      expect(listener.comments).toContain('the gateway is stopping');
    });

    test('closes all clients when the log closes', async () => {
      await start();
      const listener = await tuneIn();
      await opened.close();
      await listener.ended;
      expect(listener.comments).toEqual(['the log cannot be read; reconnect to resume']);
      expect(live.clients()).toBe(0);
    });
  });

  describe('a slow client', () => {
    async function flood(count: number, from = 0): Promise<void> {
      const exchange = exchangeOf('flood');
      for (let i = 0; i < count; i += 500) {
        const words = Array.from({ length: Math.min(500, count - i) }, (_, j) =>
          exchange.words(from + i + j, 'word'.repeat(100)),
        );
        await append(log, exchange.stream, ...(i === 0 && from === 0 ? [exchange.received] : []), ...words);
        // Other clients get their turn, as they would with requests coming in.
        await new Promise(setImmediate);
      }
    }

    const chunks = { raw: 'true', types: 'chunk.received' };

    test('that stalls is closed, and resumes without loss', async () => {
      await start({ clientByteCap: 64 * 1024, stallSeconds: 0.3 });
      const stalled = await tuneIn(chunks);
      stalled.response.pause();
      // Far more than the operating system buffers for it.
      await flood(20_000);
      await expect.poll(() => live.clients(), { timeout: 10_000 }).toBe(0);
      stalled.response.resume();
      await stalled.ended;
      const seen = stalled.news().map(({ id }) => id);
      expect(seen.length).toBeLessThan(20_000);

      const back = await tuneIn({ ...chunks, cursor: stalled.lastId() ?? '0' });
      await back.atLeast(20_000 - seen.length);
      const ids = [...seen, ...back.news().map(({ id }) => id)];
      expect(ids).toHaveLength(20_000);
      expect(new Set(ids).size).toBe(20_000);
    }, 30_000);

    test('has at most its cap buffered for it, and misses nothing when it reads again', async () => {
      await start({ clientByteCap: 64 * 1024, stallSeconds: 60 });
      const slow = await tuneIn(chunks);
      slow.response.pause();
      await flood(20_000);
      await expect.poll(() => live.unsentBytes()).toBeGreaterThan(0);
      // The cap, the frame that reached it, and what HTTP puts around it.
      expect(live.unsentBytes()).toBeLessThan(80 * 1024);
      slow.response.resume();
      await slow.atLeast(20_000);
      expect(slow.news().map(({ data }) => data.data.data.index)).toEqual([...Array(20_000).keys()]);
    }, 30_000);

    test('that keeps reading is never closed: it receives all events at its own pace', async () => {
      await start({ clientByteCap: 64 * 1024, stallSeconds: 10 });
      const slow = await tuneIn(chunks);
      // A pause after some reads, not at fixed times: on a slow machine such a client would never get to read.
      let reads = 0;
      slow.response.on('data', () => {
        if (++reads % 8 !== 0) return;
        slow.response.pause();
        setTimeout(() => slow.response.resume(), 4);
      });
      const count = countOf(20_000, 50_000);
      await flood(count);
      const halfway = slow.news().length;
      await slow.atLeast(count, 50_000);
      expect(halfway).toBeLessThan(count);
      expect(slow.news().map(({ data }) => data.data.data.index)).toEqual([...Array(count).keys()]);
      expect(live.clients()).toBe(1);
    }, 60_000);
  });

  test('two hundred clients receive the same events, and the log is read once for all of them', async () => {
    let subscriptions = 0;
    const counted: EventLog = new Proxy(log, {
      get(target, name) {
        if (name === 'subscribe') subscriptions += 1;
        const value = Reflect.get(target, name, target);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
    await start({ log: counted });
    const all = await Promise.all(Array.from({ length: 200 }, () => tuneIn({ types: 'audit' })));
    for (let i = 0; i < 20; i++) await appendWhole(log, exchangeOf(String(i)), 'x');
    await Promise.all(all.map((listener) => listener.until('audit.completed', 'req-19')));
    const first = JSON.stringify(all[0]?.news());
    expect(all[0]?.news()).toHaveLength(20 * 5);
    for (const listener of all) expect(JSON.stringify(listener.news()) === first).toBe(true);
    expect(subscriptions).toBe(1);
  }, 20_000);

  test('a client receives exactly the events after its cursor, whenever it connects', async () => {
    await start();
    const written: string[] = [];
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: 12 }), fc.nat(100), async (more, where) => {
        const begin = Math.floor((written.length * where) / 101);
        const cursor = begin === 0 ? '0' : (written[begin - 1] ?? '0');
        const coming = tuneIn({ raw: 'true', cursor });
        for (let i = 0; i < more; i++) {
          const { stream, received } = exchangeOf(`p-${written.length}`);
          written.push((await append(log, stream, received)).position);
          if (i % 3 === 0) await new Promise(setImmediate);
        }
        const listener = await coming;
        await listener.atLeast(written.length - begin);
        expect(listener.news().map(({ id }) => id)).toEqual(written.slice(begin));
        listener.leave();
      }),
      { numRuns: countOf(10, 40) },
    );
  });
});

/** A claim of an idempotency key that the log accepted and then had to give up, because it could not be written. */
import { describe, expect, it } from 'vitest';
import { DetachedClients } from '../../../src/commands/exchange/delivery/detached-client.ts';
import type { ExchangeDialect } from '../../../src/commands/exchange/dialect.ts';
import { ExchangeRecord } from '../../../src/commands/exchange/exchange-record.ts';
import { admit, claimKey } from '../../../src/commands/exchange/pipeline/admit.ts';
import { complete } from '../../../src/commands/exchange/pipeline/complete.ts';
import { deliver } from '../../../src/commands/exchange/pipeline/deliver.ts';
import type { ExchangeDependencies } from '../../../src/commands/exchange/pipeline/dependencies.ts';
import { RunningExchange } from '../../../src/commands/exchange/pipeline/running-exchange.ts';
import { policyWithout } from '../../../src/commands/exchange/policy.ts';
import { withoutLimits } from '../../../src/commands/model-request/admission.ts';
import type { Client, ModelRequest } from '../../../src/commands/model-request/model-request.ts';
import { archiveOf } from '../../../src/commands/responses/archive.ts';
import { everything } from '../../../src/commands/visibility.ts';
import { requestReceived } from '../../../src/events/catalogue/exchange.ts';
import { type Appended, type StreamWrite, WrongExpectedRevision } from '../../../src/events/log.ts';
import { MemoryLog } from '../../../src/events/memory/memory-log.ts';
import { createResponseRecords } from '../../../src/projections/responses.ts';

/** Refuses so many claims because of one that will never be seen. */
class ForgetfulLog extends MemoryLog {
  refusals = 1;

  override async append(writes: readonly StreamWrite[]): Promise<Appended> {
    const claim = writes.find(({ stream }) => stream.startsWith('idempotency-'));
    if (claim !== undefined && this.refusals-- > 0) throw new WrongExpectedRevision(claim.stream, 'noStream', 0n);
    return super.append(writes);
  }
}

function waiting(refusals: number, client: Partial<Client> = {}) {
  const log = new ForgetfulLog();
  log.refusals = refusals;
  const caller = { actor: 'master', authMethod: 'master_key', visibility: everything } as const;
  const headers = { 'idempotency-key': 'k' };
  const body = Buffer.from('{}');
  const request: ModelRequest = { caller, requestId: 'r', method: 'POST', path: '/v1/x', headers, body };
  const record = new ExchangeRecord(log, 'e1', { actor: 'master' });
  record.note(
    requestReceived.create(
      {
        dialect: 'chat',
        method: 'POST',
        path: '/v1/x',
        headers,
        stream: false,
        authMethod: 'master_key',
        capture: 'full',
      },
      record.context,
      body,
    ),
  );
  const events: unknown[] = [];
  const full: Client = {
    ended: new AbortController().signal,
    begun: false,
    answer() {},
    refuse: (refusal) => events.push(refusal.code),
    isKeptOpen: false,
    keepOpen() {},
    begin() {},
    write: () => undefined,
    end() {},
    ...client,
  };
  const dialect = { name: 'chat', endpoint: '/v1/x' } as ExchangeDialect;
  const deps = {
    log,
    dialects: new Map([['chat', dialect]]),
    archive: archiveOf(createResponseRecords(log)),
    admission: withoutLimits,
    detached: new DetachedClients(),
  } as unknown as ExchangeDependencies;
  const exchange = new RunningExchange(deps, { dialect, request, record, client: full });
  return { log, told: events, answered: untilClaimed(exchange) };
}

/** @returns the status of the answer; undefined when the key was claimed */
async function untilClaimed(exchange: RunningExchange): Promise<number | undefined> {
  const parsedRequest = { model: 'm', provider: undefined, stream: false, json: {} };
  const parsed = Object.assign(exchange, { parsedRequest });
  if ((await claimKey(parsed)) !== undefined) throw new Error('the key has an answer');
  const route = { candidates: [], ready: 0, through: [], failsOver: () => false };
  const policy = policyWithout({ capture: 'full' });
  const admitted = await admit(Object.assign(parsed, { route, policy, isByModel: true }));
  return 'source' in admitted ? complete(await deliver(admitted, exchange), exchange) : undefined;
}

describe('a request that waits for a claim that was released', () => {
  it('claims the key itself', async () => {
    const { answered, log } = waiting(1);
    expect(await answered).toBeUndefined();
    expect(log.refusals).toBe(-1);
  });

  it('waits no longer when the gateway stops', async () => {
    const stop = new AbortController();
    const { answered, told: events } = waiting(Number.POSITIVE_INFINITY, { ended: stop.signal });
    setImmediate(() => stop.abort('gateway_stopping'));
    expect(await answered).toBe(503);
    expect(events).toEqual(['stopping']);
  });
});

/** Cancelling a background response while another component changes it. */
import { describe, expect, it } from 'vitest';
import { DeferredUsage } from '../../src/commands/deferred/deferred-usage.ts';
import { storedResponseWrite } from '../../src/commands/exchange/record/end-events.ts';
import { cancelResponse, type LifecycleDependencies } from '../../src/commands/response-lifecycle/lifecycle.ts';
import { archiveOf } from '../../src/commands/responses/archive.ts';
import { everything } from '../../src/commands/visibility.ts';
import { MemoryLog } from '../../src/events/memory/memory-log.ts';
import { createResponseRecords } from '../../src/projections/responses.ts';
import { everythingAllowed, noKeys, unpriced } from '../support/nothing-configured.ts';

const id = 'resp_1';
const context = { actor: 'master' as const };
const owner = { userPath: undefined, createdBy: 'master' as const };
const signal = new AbortController().signal;
const request = {
  id,
  provider: undefined,
  query: '',
  requestId: 'r',
  context,
  caller: { visibility: everything },
  signal,
};
const facts = {
  provider: 'p',
  providerType: 't',
  model: 'm',
  native: false,
  previousResponseId: null,
  inputItems: '[]',
};

async function withResponse(
  cancelRunning: (become: (status: 'in_progress' | 'completed') => Promise<void>) => Promise<void> | undefined,
) {
  const log = new MemoryLog();
  const become = async (status: 'queued' | 'in_progress' | 'completed') => {
    const json = JSON.stringify({ id, status, background: true });
    await log.append([storedResponseWrite({ id, status, json }, facts, { exchangeId: 'e', owner }, context)]);
  };
  await become('queued');
  const archive = archiveOf(createResponseRecords(log));
  const deps: LifecycleDependencies = {
    log,
    archive,
    keys: noKeys,
    dialects: new Map(),
    provider: () => undefined,
    providers: () => [],
    access: everythingAllowed,
    cancelRunning: () => cancelRunning(become),
    hasOtherGateways: () => false,
    endElsewhereMs: 0,
    deferred: new DeferredUsage({ log, pricing: unpriced, works: { find: () => undefined }, countTokens: () => {} }),
  };
  return { deps, status: async () => (await archive.find(id, everything))?.status };
}

describe('cancelling', () => {
  it('holds although the end of the one that ran could not be recorded', async () => {
    let runs = 1;
    const { deps, status } = await withResponse(() => (runs-- > 0 ? Promise.resolve() : undefined));
    expect(await cancelResponse(request, deps)).toMatchObject({ id, status: 'cancelled' });
    expect(await status()).toBe('cancelled');
  });

  it('ends one that is taken up at the same moment', async () => {
    let requestCount = 0;
    const { deps, status } = await withResponse((become) => {
      requestCount += 1;
      if (requestCount === 1) {
        // Not running yet; it begins before the cancellation is on record.
        void become('in_progress');
        return undefined;
      }
      return become('completed');
    });
    expect(await cancelResponse(request, deps)).toMatchObject({ status: 'completed' });
    expect(await status()).toBe('completed');
    expect(requestCount).toBe(2);
  });
});

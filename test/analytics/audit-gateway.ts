/** A gateway with a generated history in its log and in analytics, for tests of the audit log. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parsePosition } from '../../src/events/event.ts';
import type { EventLog } from '../../src/events/log.ts';
import { openLog } from '../../src/events/open-log.ts';
import { createBatchStore } from '../../src/projections/analytics/batch-store.ts';
import { startProjector } from '../../src/projections/analytics/projector.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { modelsListed } from '../support/with-gateway.ts';
import { type Embedded, startEmbedded } from './embedded.ts';
import { type HistoryOptions, writeHistory } from './generated-history.ts';

export interface AuditGateway {
  readonly gateway: TestGateway;
  readonly log: EventLog;
  readonly embedded: Embedded;
  /** A temporary folder, in which files may be written. */
  readonly dataDir: string;
  /** Waits until analytics has stored everything that is in the log now. */
  caughtUp(): Promise<void>;
  close(): Promise<void>;
}

export async function startAuditGateway(
  history: HistoryOptions,
  env: Record<string, string> = {},
): Promise<AuditGateway> {
  const dataDir = mkdtempSync(join(tmpdir(), 'chancery-audit-'));
  const logUrl = `file:${join(dataDir, 'log')}`;
  const written = await openLog(logUrl);
  await writeHistory(written, history);
  await written.close();
  const embedded = await startEmbedded();
  const passwords = { gateway: 'asks', administrator: 'governs' };
  const gateway = await startTestGateway({
    dataDir,
    env,
    analytics: {
      address: (as) => {
        const username = as === 'administrator' ? as : 'gateway';
        return { url: embedded.url, username, password: passwords[username], database: 'chancery' };
      },
      status: () => ({ health: 'ok', lagEvents: 0 }),
    },
  });
  await modelsListed(gateway);
  const log = await openLog(logUrl, { readOnly: true });
  const store = createBatchStore(embedded.clientOf('projector'), 'chancery');
  const projector = startProjector({ log, store, retention: { audit: 0, usage: 0 }, liveMs: 1, retryMs: 10 });
  return {
    gateway,
    embedded,
    log,
    dataDir,
    caughtUp: async () => projector.whenStored(parsePosition(await log.head())),
    async close() {
      await projector.close();
      await log.close();
      await gateway.close();
      await embedded.close();
      rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/** What the primary process answers while no worker takes connections. */
import { refusals } from '../../commands/refusal.ts';
import { type ServiceWorkers, workersAnswer } from '../../http/health.ts';
import { createUnreadyServer, type UnreadyServer } from '../../http/unready-server.ts';

export interface ServiceCondition {
  readonly storage: 'ok' | 'degraded' | 'down';
  readonly workers: ServiceWorkers;
}

export function answerWithoutWorkers(maxHeaderBytes: number, condition: () => ServiceCondition): UnreadyServer {
  return createUnreadyServer({
    maxHeaderBytes,
    refusal: () => refusals.noWorker(),
    readiness: () => {
      const { storage, workers } = condition();
      const reason = 'no worker takes connections';
      return { components: { storage }, workers: { reason, ...workersAnswer(workers) } };
    },
  });
}

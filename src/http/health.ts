/** `GET /health` states that the process is alive, `GET /health/ready` whether it can serve requests. */
import type { LogEngineStatus } from '../events/log.ts';
import * as answers from './answer-schemas.ts';
import { jsonAnswer, publicRoute, type Routes } from './api/route-schema.ts';

/** How many processes of the service are to serve requests, and how many do. */
export interface ServiceWorkers {
  readonly configured: number;
  readonly running: number;
  /** Why a worker that ends could not be replaced at the moment, if that is known. */
  readonly problem?: string | undefined;
}

export interface Readiness {
  /** Whether the log can be written; `degraded`: it can, but has another problem, which the gateway has logged. */
  log(): 'ok' | 'degraded' | 'down';
  /** Places in the log that cannot be read. */
  damage?(): readonly string[] | undefined;
  stopping(): boolean;
  /** The engine of a log that several gateways share; undefined for a log in files. */
  engine?(): LogEngineStatus | undefined;
  /** Undefined where the service is one process. */
  workers?(): ServiceWorkers | undefined;
  /** Whether the stream index covers every stream. During a rebuild, reads of older streams are slower. */
  streamIndex(): 'ok' | 'rebuilding';
  /** Whether figures and SQL are current; absent when analytics is off. Requests do not depend on it. */
  analytics?(): 'ok' | 'behind' | 'down' | 'off';
  /** Whether the last exports of traces and metrics were accepted; absent when nothing is exported. */
  telemetry?(): 'ok' | 'failing';
}

const getHealth = publicRoute('health', 'Whether the process is alive', {
  tag: 'operations',
  response: { 200: jsonAnswer('It is alive', answers.health) },
});

const getReadiness = publicRoute('ready', 'Whether requests can be served', {
  tag: 'operations',
  response: {
    200: jsonAnswer('Requests can be served', answers.readiness),
    503: jsonAnswer('Requests cannot be served', answers.readiness),
  },
});

export function registerHealth(app: Routes, readiness: Readiness): void {
  app.get('/health', getHealth, () => ({ status: 'ok' }));
  app.get('/health/ready', getReadiness, (_request, reply) => {
    const storage = readiness.log();
    const analytics = readiness.analytics?.();
    const telemetry = readiness.telemetry?.();
    const streamIndex = readiness.streamIndex();
    const workers = readiness.workers?.();
    const ready = storage !== 'down' && !readiness.stopping() && workers?.running !== 0;
    const degraded =
      storage === 'degraded' ||
      analytics === 'behind' ||
      analytics === 'down' ||
      telemetry === 'failing' ||
      streamIndex === 'rebuilding' ||
      (workers !== undefined && (workers.running < workers.configured || workers.problem !== undefined));
    const status = ready ? (degraded ? 'degraded' : 'ready') : 'not_ready';
    const components = { storage, stream_index: streamIndex, analytics, telemetry };
    const engine = readiness.engine?.();
    const damage = readiness.damage?.();
    const answer = {
      status,
      components,
      ...(damage === undefined ? {} : { log_damage: damage }),
      ...(engine === undefined ? {} : { log_engine: engineAnswer(engine) }),
      ...(workers === undefined ? {} : { workers: workersAnswer(workers) }),
    };
    return reply.code(ready ? 200 : 503).send(answer);
  });
}

export function workersAnswer({ configured, running, problem }: ServiceWorkers) {
  const reason = problem ?? (running === 0 ? 'no worker serves requests' : undefined);
  return { configured, running, ...(reason === undefined ? {} : { reason }) };
}

function engineAnswer({ name, connected, unreadAppends, lastReadAt }: LogEngineStatus) {
  const lastRead = lastReadAt === undefined ? {} : { last_read_at: new Date(lastReadAt).toISOString() };
  return { name, connected, unread_appends: unreadAppends, ...lastRead };
}

/** `GET /health` says that the process lives, `GET /health/ready` whether it can do its work. */
import type { FastifyInstance } from 'fastify';

export interface Readiness {
  /** Whether the log can be written. */
  log(): 'ok' | 'down';
  stopping(): boolean;
}

export function registerHealth(app: FastifyInstance, readiness: Readiness): void {
  const open = { config: { open: true } };
  app.get('/health', open, () => ({ status: 'ok' }));
  app.get('/health/ready', open, (_request, reply) => {
    const storage = readiness.log();
    const ready = storage === 'ok' && !readiness.stopping();
    return reply.code(ready ? 200 : 503).send({ status: ready ? 'ready' : 'not_ready', components: { storage } });
  });
}

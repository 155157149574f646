/** Routes that answer from the state of this gateway, and must know what other gateways have answered before. */
import { LogUnavailable } from '../events/log.ts';
import type { Routes } from './api/route-schema.ts';

/** Resolves when this gateway knows everything that was recorded before the call. @throws LogUnavailable */
export type ReadToPresent = () => Promise<void>;

/** Set when the log could not be read to its end: what other gateways have recorded may be missing. */
const STALE = 'x-stale';
const READING = new Set(['GET', 'HEAD']);

/** Reads wait for it. While the log is unavailable they are answered from what was read, with `x-stale: true`. */
export function readAtPresent(routes: Routes, readToPresent: ReadToPresent): void {
  routes.addHook('preHandler', async (request, reply) => {
    if (!READING.has(request.method)) return;
    try {
      await readToPresent();
    } catch (error) {
      if (!(error instanceof LogUnavailable)) throw error;
      reply.header(STALE, 'true');
    }
  });
}

/** Work that a request to a provider's own API starts and that continues after its answer. */
import type { DeferredWork } from '../../../model-request/deferred-work.ts';

/** The kind of work that a successful request starts; undefined when nothing continues after its answer. */
export function deferredWorkKind(method: string, path: string): DeferredWork['kind'] | undefined {
  if (method !== 'POST') return undefined;
  const [route = ''] = path.split('?', 1);
  if (/\/batches\/?$/.test(route)) return 'batch';
  return /\/responses\/?$/.test(route) ? 'response' : undefined;
}

/** Whether the request starts work that continues after its answer and whose cost is unknown until then. */
export function startsUncountedWork(method: string, path: string): boolean {
  const [route = ''] = path.split('?', 1);
  return method === 'POST' && /\/(?:batches|fine_tuning\/jobs|videos)\/?$|:batch/i.test(route);
}

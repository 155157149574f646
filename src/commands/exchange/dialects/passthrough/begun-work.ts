/** What a request to a provider's own API begins that continues after its answer. */
import type { DeferredWork } from '../../../model-request/deferred-work.ts';

/** What it begins when it succeeds: undefined for anything that ends with its answer. */
export function begunBy(method: string, path: string): DeferredWork['kind'] | undefined {
  if (method !== 'POST') return undefined;
  const [route = ''] = path.split('?', 1);
  if (/\/batches\/?$/.test(route)) return 'batch';
  return /\/responses\/?$/.test(route) ? 'response' : undefined;
}

/** Whether it begins work that goes on after its answer and whose cost is unknown until then. */
export function beginsUncounted(method: string, path: string): boolean {
  const [route = ''] = path.split('?', 1);
  return method === 'POST' && /\/(?:batches|fine_tuning\/jobs|videos)\/?$|:batch/i.test(route);
}

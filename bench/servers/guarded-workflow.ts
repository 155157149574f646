/** A workflow for all requests with three guardrails that the gateway evaluates itself, in all phases. */
import { guardrailsOfBenchmark } from '../guardrails-of-benchmark.ts';
import { GATEWAY_KEY } from './gateway.ts';
import type { Server } from './launch.ts';

export async function guardEverything({ origin }: Pick<Server, 'origin'>): Promise<void> {
  const send = async (method: string, path: string, body: unknown): Promise<void> => {
    const headers = { authorization: `Bearer ${GATEWAY_KEY}`, 'content-type': 'application/json' };
    const response = await fetch(`${origin}/admin/${path}`, { method, headers, body: JSON.stringify(body) });
    if (!response.ok) throw new Error(`${method} /admin/${path}: ${response.status} ${await response.text()}`);
  };
  for (const [step, { type, config }] of guardrailsOfBenchmark.entries()) {
    await send('PUT', 'guardrails', { name: `${type}-${step}`, type, config });
  }
  const steps = guardrailsOfBenchmark.flatMap(({ type }, step) =>
    ['prompt', 'response', 'stream'].map((phase) => ({ ref: `${type}-${step}`, phase, step })),
  );
  const features = { cache: true, audit: true, usage: true, guardrails: true };
  await send('POST', 'workflows', { name: 'bench', workflow_payload: { schema_version: 2, features, steps } });
}

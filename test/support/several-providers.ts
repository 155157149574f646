/** Several simulated providers behind one gateway, for the length of one test file. */
import { afterAll, afterEach } from 'vitest';
import {
  createSimulatedProvider,
  type RecordedRequest,
  type SimulatedProvider,
  type SimulatedProviderOptions,
} from '../../infra/simulated-provider/server.ts';
import type { TestGatewayOptions } from './gateway.ts';
import { type StartedGateway, withGateway } from './with-gateway.ts';

export interface SeveralProviders<Name extends string> {
  readonly gateway: StartedGateway;
  readonly provider: Readonly<Record<Name, SimulatedProvider>>;
  /** The requests that a provider got, besides the listing of its models. */
  requestsTo(name: Name): RecordedRequest[];
  /** The requests that each got since the last call. */
  counted(): Readonly<Record<Name, number>>;
}

interface Told extends SimulatedProviderOptions {
  /** Of which it is registered, as `<type>-<name>`; `llamacpp` when not given. */
  readonly type?: string;
}

export function withProviders<Name extends string>(
  names: Readonly<Record<Name, Told>>,
  options: TestGatewayOptions = {},
): SeveralProviders<Name> {
  const all = Object.keys(names) as Name[];
  const provider = Object.fromEntries(all.map((name) => [name, createSimulatedProvider(names[name])])) as Record<
    Name,
    SimulatedProvider
  >;
  const gateway = withGateway(async () => {
    const registered = await Promise.all(
      all.map(async (name) => {
        const prefix = `${names[name].type ?? 'llamacpp'}_${name}`.toUpperCase();
        return { [`${prefix}_BASE_URL`]: await provider[name].listen(), [`${prefix}_API_KEY`]: 'a-key-for-tests' };
      }),
    );
    return { ...options, simulated: false, env: { ...Object.assign({}, ...registered), ...options.env } };
  });
  const requestsTo = (name: Name) =>
    provider[name].requests.filter(({ path }) => path !== '/v1/models' && path !== '/props');
  const before = new Map<Name, number>();
  afterEach(() => {
    for (const name of all) provider[name].control.clear();
  });
  afterAll(async () => {
    await Promise.all(all.map((name) => provider[name].close()));
  });
  return {
    gateway,
    provider,
    requestsTo,
    counted() {
      const counts = all.map((name) => {
        const now = requestsTo(name).length;
        const since = now - (before.get(name) ?? 0);
        before.set(name, now);
        return [name, since] as const;
      });
      return Object.fromEntries(counts) as Record<Name, number>;
    },
  };
}

/** Makes a virtual model, or a policy. @throws when that is refused */
export async function saved(gateway: Pick<StartedGateway, 'fetch'>, body: object): Promise<Response> {
  const answer = await gateway.fetch('/admin/virtual-models', { method: 'PUT', json: body });
  if (answer.status >= 300) throw new Error(await answer.text());
  return answer;
}

/** A gateway with both kinds of provider, for the scenarios of a Python program that uses OpenAI's API. */
import { beforeAll } from 'vitest';
import { both, native, withBothKinds } from './both-kinds.ts';
import { MASTER_KEY } from './gateway.ts';
import type { PythonScenarios } from './python-scenarios.ts';

/** Each kind of provider by each of the two APIs: name of the API, kind, and the scenario's parameter. */
export const ways = both.flatMap(([kind, model]) =>
  ['chat', 'responses'].map((api) => [api, kind, `${model} ${api}`] as const),
);

export function withBothKindsForPython(
  program: string,
  variables: Readonly<Record<string, string>> = {},
  settings: Readonly<Record<string, string>> = {},
): PythonScenarios {
  const env = { RETRY_MAX_RETRIES: '0', CIRCUIT_BREAKER_ENABLED: 'false', ...settings };
  const { gateway, nativeProvider, create } = withBothKinds(env);
  // With its first request the gateway finds that a provider has no Responses API; faults are for those after it.
  beforeAll(() => create({ input: 'hi' }));
  return {
    program,
    variables: () => ({ GATEWAY_URL: gateway.url, GATEWAY_KEY: MASTER_KEY, ...variables }),
    providerOf: (model) => (model === native ? nativeProvider : gateway.simulated),
  };
}

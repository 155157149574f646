/** OpenAI's own package for Python, unchanged, in realtime sessions: `python/realtime_client.py`. */
import { afterAll, expect, it } from 'vitest';
import { MASTER_KEY } from '../support/gateway.ts';
import { describeScenarios } from '../support/python-scenarios.ts';
import { type RealtimeProvider, startRealtimeProvider } from '../support/realtime-provider.ts';
import { withGateway } from '../support/with-gateway.ts';

let provider: RealtimeProvider;
const gateway = withGateway(async () => {
  provider = await startRealtimeProvider();
  return { env: { OPENAI_BASE_URL: provider.url, OPENAI_API_KEY: 'sk-of-the-provider' } };
});
afterAll(() => provider.close());

const variables = () => ({ GATEWAY_URL: gateway.url, GATEWAY_KEY: MASTER_KEY });

describeScenarios("OpenAI's package for Python", { program: 'realtime_client.py', variables }, (seen) => {
  it('opens sessions, with a key and with a client secret', () => {
    expect(seen('session')).toEqual({ first: 'session.created', tokens: 150 });
    expect(seen('client_secret')).toEqual({ prefix: 'ek_', first: 'session.created' });
  });

  it('gets the errors of the gateway', () => expect(seen('error')).toBe('error'));
});

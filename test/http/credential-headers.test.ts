import { afterAll, describe, expect, it } from 'vitest';
import { isCredentialHeader } from '../../src/commands/header-names.ts';
import { redactHeaders, redactUrl } from '../../src/http/request-head.ts';
import { MASTER_KEY, startTestGateway } from '../support/gateway.ts';
import { rawAnswer } from '../support/raw-client.ts';
import { type ScriptedProvider, startScriptedProvider } from '../support/scripted-provider.ts';
import { eventsOfExchange, exchangeOf, withGateway } from '../support/with-gateway.ts';

let scripted: ScriptedProvider;
const gateway = withGateway(async () => {
  scripted = await startScriptedProvider();
  return { register: (url) => ({ LLAMACPP_BASE_URL: url, LLAMACPP_ODD_BASE_URL: scripted.url }) };
});
afterAll(() => scripted.close());

const credentials = [
  // Of the gateway, of providers and of other gateways.
  'authorization',
  'proxy-authorization',
  'x-original-authorization',
  'x-forwarded-authorization',
  'api-key',
  'x-api-key',
  'x-goog-api-key',
  'openai-api-key',
  'x-litellm-api-key',
  'x-portkey-api-key',
  'helicone-auth',
  'ocp-apim-subscription-key',
  // Of clouds, vaults and code hosts.
  'x-amz-security-token',
  'x-amz-access-token',
  'x-vault-token',
  'private-token',
  'x-gitlab-token',
  'x-auth-token',
  'x-access-token',
  // Set by proxies that authenticate.
  'x-forwarded-access-token',
  'x-auth-request-access-token',
  'x-auth-request-user',
  'x-amzn-oidc-accesstoken',
  'x-amzn-oidc-data',
  'x-goog-iap-jwt-assertion',
  'x-ms-token-aad-access-token',
  'x-ms-token-aad-id-token',
  'cf-access-jwt-assertion',
  'cf-access-client-secret',
  'cookie',
  'set-cookie',
  // One for each word: alone, at the end of a part, and in the middle.
  'x-mykey',
  'x-key-of-mine',
  'x-apisecret',
  'x-password',
  'x-passwd',
  'x-vault-credential',
  'x-db-credentials',
  'authentication',
  'x-userpassword-old',
  'x-signature',
  'x-hub-signature-256',
  'x-jwt',
  'client-assertion',
];

const visible = [
  'idempotency-key',
  'x-idempotency-key',
  'x-ratelimit-limit-tokens',
  'x-ratelimit-key',
  'x-session-id',
  'session_id',
  'helicone-session-id',
  'x-claude-code-session-id',
  'x-keyed',
  'x-tokens',
  'x-author',
  'authority',
  'x-cookies',
  'secretary',
  'anthropic-version',
  'anthropic-beta',
  'openai-organization',
];

const allOf = (names: readonly string[]) => Object.fromEntries(names.map((name) => [name, `value-of-${name}`]));

describe('isCredentialHeader', () => {
  it.each(credentials)('is true for %s', (name) => expect(isCredentialHeader(name)).toBe(true));
  it.each(visible)('is false for %s', (name) => expect(isCredentialHeader(name)).toBe(false));

  it('stays correct for more names than its cache holds', () => {
    for (let n = 0; n < 5_000; n++) {
      expect(isCredentialHeader(`x-${n}-token`)).toBe(true);
      expect(isCredentialHeader(`x-${n}-tokens`)).toBe(false);
    }
  });
});

describe('a recorded request', () => {
  it('has no header that holds credentials, and every other one', async () => {
    const given = [...credentials, ...visible].filter((name) => name !== 'authorization');
    const answer = await gateway.fetch('/v1/chat/completions', {
      json: { model: 'llamacpp/simulated-small', messages: [{ role: 'user', content: 'hi' }] },
      headers: { ...allOf(given), 'idempotency-key': 'once' },
    });
    expect(answer.status).toBe(200);
    const [received] = await eventsOfExchange(gateway, exchangeOf(answer));
    const { headers } = received?.data ?? {};
    for (const name of credentials) expect([name, headers[name]]).toEqual([name, '[REDACTED]']);
    for (const name of visible.filter((name) => name !== 'idempotency-key')) {
      expect([name, headers[name]]).toEqual([name, `value-of-${name}`]);
    }
    expect(headers['idempotency-key']).toBe('once');
    expect(headers['content-type']).toBe('application/json');
  });

  it.each([
    ['/p/x?api_key=S&b=1', '/p/x?api_key=[REDACTED]&b=1'],
    ['/p/x?API-KEY=S', '/p/x?API-KEY=[REDACTED]'],
    ['/p/x?a=1&client_assertion=S', '/p/x?a=1&client_assertion=[REDACTED]'],
    ['/p/x?jwt=S&authorization=S', '/p/x?jwt=[REDACTED]&authorization=[REDACTED]'],
    ['/p/x?accessToken=S&page=2', '/p/x?accessToken=[REDACTED]&page=2'],
    ['/p/x?api%5Fk%65y=S', '/p/x?api%5Fk%65y=[REDACTED]'],
    ['/p/x?a=1;token=S;T', '/p/x?a=1;token=[REDACTED]'],
    ['/p/x?X-Amz-Signature=S=S&x=1', '/p/x?X-Amz-Signature=[REDACTED]&x=1'],
    ['/p/x?X-Amz-Credential=S#f', '/p/x?X-Amz-Credential=[REDACTED]#f'],
    ['/p/x?sig=S', '/p/x?sig=[REDACTED]'],
    ['/p/x?a=1#access_token=S', '/p/x?a=1#access_token=[REDACTED]'],
    ['/p/x#access_token=S', '/p/x#access_token=[REDACTED]'],
    ['/p/x?%zz_key=S', '/p/x?%zz_key=[REDACTED]'],
    ['/p/x?key=', '/p/x?key=[REDACTED]'],
    ['/p/x?model=a&keys=b&after=c', '/p/x?model=a&keys=b&after=c'],
    ['/p/key=1', '/p/key=1'],
  ])('shows %s as %s', (url, shown) => expect(redactUrl(url)).toBe(shown));

  it('has no credentials of a URL in a header', () => {
    expect(
      redactHeaders({ referer: 'https://app.example/?token=S&x=1', 'x-original-uri': '/v1/models?api_key=S' }),
    ).toEqual({
      referer: 'https://app.example/?token=[REDACTED]&x=1',
      'x-original-uri': '/v1/models?api_key=[REDACTED]',
    });
  });
});

/** Names that do not show that they hold a credential, and others that no provider knows. */
const unknownNames = [
  'x-pwd',
  'x-passphrase',
  'x-pin',
  'x-authz',
  'x-session',
  'x_api_key',
  'x_pwd',
  'x-otp',
  'x-sid',
  'x-goog-authenticated-user-email',
  'x-remote-user',
  'referer',
  'origin',
  'x-author',
  'x-cookies',
  'secretary',
  ...['openai', 'anthropic', 'x-goog', 'x-stainless', 'x-claude', 'x-codex', 'x-openai'].flatMap((family) =>
    [
      ...['keys', 'secrets', 'tokens', 'passwords', 'cookies', 'signatures', 'credentials', 'bearer', 'pat'],
      ...['passphrase', 'pass', 'pwd', 'pin', 'otp', 'pin-code', 'authz', 'tok', 'private', 'access'],
    ].map((part) => `${family}-${part}`),
  ),
  'openai-any',
  'x-goog-any',
];

/** What providers' SDKs and agents send. */
const forwarded = [
  'accept',
  'accept-language',
  'user-agent',
  'idempotency-key',
  'x-idempotency-key',
  'anthropic-version',
  'anthropic-beta',
  'anthropic-dangerous-direct-browser-access',
  'openai-organization',
  'openai-project',
  'openai-beta',
  'x-stainless-lang',
  'x-stainless-retry-count',
  'x-stainless-helper-method',
  'x-goog-api-client',
  'x-goog-upload-protocol',
  'x-goog-user-project',
  'x-claude-code-session-id',
  'x-codex-turn-metadata',
  'x-openai-subagent',
  'x-session-id',
  'session_id',
  'x-app',
  'http-referer',
  'x-title',
  'traceparent',
  'range',
  'if-none-match',
];

describe('a request that is passed on to a provider', () => {
  it('has only the headers that providers use', async () => {
    scripted.script((_request, response) => response.writeHead(200).end('fine'));
    const given = [...credentials, ...unknownNames, ...forwarded].filter((name) => name !== 'authorization');
    const answer = await gateway.fetch('/p/llamacpp-odd/x', { headers: allOf(given) });
    expect(answer.status).toBe(200);
    const { headers } = scripted.last();
    for (const name of [...credentials, ...unknownNames]) expect([name, headers[name]]).toEqual([name, undefined]);
    for (const name of forwarded) expect([name, headers[name]]).toEqual([name, `value-of-${name}`]);
  });

  it('has headers that a setting adds, except those of the connection', async () => {
    const other = await startTestGateway({
      env: {
        LLAMACPP_ODD_BASE_URL: scripted.url,
        PASSTHROUGH_REQUEST_HEADERS: 'X-Tenant, x-pin',
        PASSTHROUGH_RESPONSE_HEADERS: 'x-upstream',
      },
    });
    try {
      scripted.script((_request, response) =>
        response.writeHead(200, { 'x-upstream': 'a', 'x-other': 'b' }).end('fine'),
      );
      const answer = await other.fetch('/p/llamacpp-odd/x', {
        headers: { 'x-tenant': 'a', 'x-pin': '1', 'x-pwd': '2' },
      });
      expect(scripted.last().headers).toMatchObject({ 'x-tenant': 'a', 'x-pin': '1' });
      expect(scripted.last().headers['x-pwd']).toBeUndefined();
      expect([answer.headers.get('x-upstream'), answer.headers.get('x-other')]).toEqual(['a', null]);
    } finally {
      await other.close();
    }
  });

  it.each([
    ['PASSTHROUGH_REQUEST_HEADERS', 'x-api-key'],
    ['PASSTHROUGH_REQUEST_HEADERS', 'Host'],
    ['PASSTHROUGH_RESPONSE_HEADERS', 'Set-Cookie'],
    ['PASSTHROUGH_RESPONSE_HEADERS', 'x-accel-redirect'],
    ['PASSTHROUGH_RESPONSE_HEADERS', 'Content-Security-Policy'],
  ])('%s cannot have %s', async (variable, name) => {
    await expect(startTestGateway({ env: { [variable]: name } })).rejects.toThrow(variable);
  });

  it('has no header that its Connection header names', async () => {
    scripted.script((_request, response) => response.writeHead(200).end('fine'));
    const head = [
      'GET /p/llamacpp-odd/x HTTP/1.1',
      'host: x',
      `authorization: Bearer ${MASTER_KEY}`,
      'connection: close, X-Hop-One ,x-hop-two',
      'connection: x-hop-three',
      'x-hop-one: 1',
      'x-hop-two: 2',
      'x-hop-three: 3',
      'openai-beta: 4',
    ];
    const answer = await rawAnswer(gateway.url, `${head.join('\r\n')}\r\n\r\n`);
    expect(answer?.status).toBe(200);
    const { headers } = scripted.last();
    for (const name of ['x-hop-one', 'x-hop-two', 'x-hop-three']) expect(headers[name]).toBeUndefined();
    expect(headers['openai-beta']).toBe('4');
  });
});

describe("the headers of a provider's answer to a request that was passed on", () => {
  it('are those on the list, and the policy of the gateway', async () => {
    const kept = {
      etag: '"1"',
      'x-ratelimit-remaining-tokens': '7',
      'openai-processing-ms': '3',
      'x-continuation-token': 'next',
      'retry-after': '3',
    };
    const dropped = {
      'set-cookie': 'a=1',
      'set-cookie2': 'a=1',
      'proxy-authenticate': 'Basic',
      'proxy-authorization': 'Basic x',
      'proxy-connection': 'keep-alive',
      te: 'trailers',
      upgrade: 'h2c',
      'alt-svc': 'h3=":443"',
      'strict-transport-security': 'max-age=1',
      'clear-site-data': '"*"',
      'openai-hop': '1',
      'www-authenticate': 'Basic',
      refresh: '0; url=/admin/dashboard',
      'service-worker-allowed': '/',
      'content-security-policy-report-only': "default-src 'none'; report-uri http://127.0.0.1:1/",
      'report-to': '{}',
      'x-accel-redirect': '/etc/passwd',
      'x-sendfile': '/etc/passwd',
      'access-control-allow-origin': '*',
      'x-upstream': 'yes',
    };
    scripted.script((_request, response) =>
      response.writeHead(200, { ...kept, ...dropped, connection: 'keep-alive, OpenAI-Hop' }).end('fine'),
    );
    const answer = await gateway.fetch('/p/llamacpp-odd/x');
    const headers = Object.fromEntries(answer.headers);
    expect(headers).toMatchObject(kept);
    for (const name of Object.keys(dropped)) expect([name, headers[name]]).toEqual([name, undefined]);
  });

  it.each([
    ['GET', '/p/llamacpp-odd/page', 'text/html'],
    ['POST', '/p/llamacpp-odd/page', 'text/html; charset=utf-8'],
    ['GET', '/p/llamacpp-odd/image', 'image/svg+xml'],
    ['GET', '/p/llamacpp-odd/events', 'text/event-stream'],
  ])('%s %s (%s) gives a page no rights in the origin of the gateway', async (method, path, type) => {
    scripted.script((_request, response) =>
      response
        .writeHead(200, { 'content-type': type, 'content-security-policy': 'sandbox allow-scripts allow-same-origin' })
        .end('<script>fetch("/admin/auth-keys")</script>'),
    );
    const answer = await gateway.fetch(path, { method });
    expect([answer.status, answer.headers.get('content-security-policy')]).toEqual([200, 'sandbox']);
    expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
  });

  it('gives no page: an error is JSON', async () => {
    scripted.script((_request, response) =>
      response.writeHead(404, { 'content-type': 'text/html' }).end('<script>fetch("/admin/auth-keys")</script>'),
    );
    const answer = await gateway.fetch('/p/llamacpp-odd/page');
    expect([answer.status, answer.headers.get('content-type')]).toEqual([404, 'application/json; charset=utf-8']);
  });
});

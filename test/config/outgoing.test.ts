/** Settings of outgoing connections: proxies, certificates, headers. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { printConfig } from '../../src/config/print.ts';
import { describeProblem } from '../../src/config/problem.ts';
import { createAuthority, missingOpenssl } from '../support/certificates.ts';
import { configFrom, load, problemsFrom, providersFrom, types, type Written } from './load.ts';

const proxiesIn = (written: Written) => configFrom(written).proxies;
const problem = (written: Written) => problemsFrom(written).map(describeProblem).join('\n');

function printed(written: Written): string {
  const loaded = load(written);
  if (!loaded.ok) throw new Error(loaded.problems.map(describeProblem).join('\n'));
  return printConfig(loaded.config, loaded.rawSettings, { providers: types, guardrailSecrets: {} });
}

describe('the proxies', () => {
  test('are none by default', () => {
    expect(proxiesIn({})).toEqual({ bypass: [] });
    expect(proxiesIn({ env: { https_proxy: '', NO_PROXY: '' } })).toEqual({ bypass: [] });
  });

  test('are in the variables that curl reads: lower case first, and the one for all last', () => {
    expect(
      proxiesIn({
        env: { HTTPS_PROXY: 'http://upper:1', https_proxy: 'http://lower:1', ALL_PROXY: 'socks5h://all:1' },
      }),
    ).toEqual({ https: 'http://lower:1/', http: 'socks5h://all:1', bypass: [] });
    expect(proxiesIn({ env: { HTTP_PROXY: 'proxy.test:3128', no_proxy: 'a.test, .b.test 10.0.0.0/8' } })).toEqual({
      http: 'http://proxy.test:3128/',
      bypass: ['a.test', '.b.test', '10.0.0.0/8'],
    });
  });

  test('are in .env and in the file', () => {
    expect(proxiesIn({ dotenv: 'HTTPS_PROXY=https://env.test', yaml: 'http: { no_proxy: [a, "*"] }' })).toEqual({
      https: 'https://env.test/',
      bypass: ['a', '*'],
    });
  });

  test.each([
    [{ HTTPS_PROXY: 'ftp://proxy' }, 'http.https_proxy (HTTPS_PROXY): expected the address of a proxy'],
    [{ HTTPS_PROXY: 'socks4://proxy:1' }, 'http.https_proxy (HTTPS_PROXY): expected the address of a proxy'],
    [{ http_proxy: 'http://' }, 'http.http_proxy (http_proxy): expected the address of a proxy'],
    [{ ALL_PROXY: 'http://a b' }, 'http.all_proxy (ALL_PROXY): expected the address of a proxy'],
    [{ NO_PROXY: '10.0.0.0/33' }, 'http.no_proxy (NO_PROXY): expected names, addresses and networks'],
    [{ NO_PROXY: 'a.test,http://b.test' }, 'http.no_proxy (NO_PROXY): expected names, addresses and networks'],
    [{ NO_PROXY: 'a.test:99999' }, 'http.no_proxy (NO_PROXY): expected names, addresses and networks'],
    [
      { OPENAI_API_KEY: 'k', OPENAI_PROXY_URL: 'ftp://x' },
      'providers.openai.proxy_url (OPENAI_PROXY_URL): expected the address of a proxy, such as http://proxy.example:3128 or socks5h://proxy.example:1080, or none',
    ],
  ])('a wrong setting is an error with its name: %j', (env, message) => {
    expect(problem({ env: env as Record<string, string> })).toContain(message);
  });

  test('a password is shown neither in a problem nor in the printed configuration', () => {
    for (const wrong of ['ftp://me:hidden-1@proxy', 'me:hidden-1@/', 'http://me:hid%den-1@proxy']) {
      const text = problem({ env: { HTTPS_PROXY: wrong } });
      expect(text).toContain('HTTPS_PROXY');
      expect(text).not.toMatch(/hidden-1|den-1/);
    }
    const env = {
      HTTPS_PROXY: 'me:hidden-1@proxy:3128',
      ALL_PROXY: 'socks5://me:hidden-2@proxy',
      OPENAI_API_KEY: 'k',
      OPENAI_PROXY_URL: 'http://me:hidden-3@proxy',
    };
    const text = printed({ env });
    expect(text).not.toContain('hidden');
    expect(text).toContain('proxy:3128');
  });

  test('one provider has its own, or none', () => {
    const providers = providersFrom({
      env: { OPENAI_API_KEY: 'k', OPENAI_PROXY_URL: 'none', OPENAI_EU_API_KEY: 'k', OPENAI_EU_PROXY_URL: 'eu:3128' },
      yaml: 'providers: { o: { type: ollama, proxy_url: "socks5h://o:1080" }, p: { type: ollama } }',
    });
    const urls = Object.fromEntries([...providers.values()].map(({ name, proxyUrl }) => [name, proxyUrl]));
    expect(urls).toEqual({ openai: 'none', 'openai-eu': 'http://eu:3128/', o: 'socks5h://o:1080', p: undefined });
  });

  test('alone declare no provider', () => {
    const { providers, notices } = configFrom({ env: { OPENAI_EU_PROXY_URL: 'none' } });
    expect(providers).toEqual([]);
    expect(notices).toEqual(['OPENAI_EU_PROXY_URL is ignored: there is no provider openai-eu']);
  });
});

describe('headers of a provider', () => {
  const withHeaders = (headers: string) => ({ yaml: `providers: { o: { type: ollama, headers: ${headers} } }` });

  test('are sent as they are given, and never shown', () => {
    const written = withHeaders('{ X-Org: "the-hidden-org", x-number: 7, X-Var: "${ORG}" }');
    const given = { ...written, env: { ORG: 'hidden-too' } };
    expect(providersFrom(given).get('o')?.headers).toEqual({
      ...{ 'x-org': 'the-hidden-org', 'x-number': '7', 'x-var': 'hidden-too' },
    });
    expect(printed(given)).not.toContain('hidden');
  });

  test.each([
    ['{ Host: x }', 'the header host is set by the gateway'],
    ['{ connection: x }', 'the header connection is set by the gateway'],
    ['{ Content-Length: 1 }', 'the header content-length is set by the gateway'],
    ['{ Authorization: "Bearer hidden" }', 'the header authorization is set by the gateway, or holds its API key'],
    ['{ x-api-key: hidden }', 'the header x-api-key is set by the gateway, or holds its API key'],
    ['{ proxy-authorization: hidden }', 'the header proxy-authorization is set by the gateway'],
    ['{ "a b": hidden }', 'expected names of headers'],
    ['{ x-a: "hidden\\nx-b: 1" }', 'expected visible ASCII characters in the header x-a'],
    ['{ x-a: hidden, X-A: hidden }', 'expected each header once'],
    ['hidden', 'expected a mapping of names of headers to their values'],
    ['{ x-a: { b: hidden } }', 'providers.o.headers.x-a'],
  ])('%s are refused', (headers, message) => {
    const text = problem(withHeaders(headers));
    expect(text).toContain('providers.o.headers');
    expect(text).toContain(message);
    expect(text).not.toContain('hidden');
  });
});

describe.skipIf(missingOpenssl() !== undefined)('certificates of a provider', () => {
  const authority = createAuthority();
  const issued = authority.issue('gateway', 'DNS:gateway');
  const other = authority.issue('other', 'DNS:other');
  const folder = mkdtempSync(join(tmpdir(), 'chancery-pem-'));
  const garbage = join(folder, 'garbage.pem');
  writeFileSync(garbage, '-----BEGIN CERTIFICATE-----\nhidden\n');
  afterAll(() => {
    authority.remove();
    rmSync(folder, { recursive: true });
  });
  const written = (files: Record<string, string>): Written => ({
    env: {
      OPENAI_API_KEY: 'k',
      ...Object.fromEntries(Object.entries(files).map(([name, file]) => [`OPENAI_${name}`, file])),
    },
  });

  test('are read', () => {
    const files = {
      CA_FILE: authority.ca.certFile,
      CLIENT_CERT_FILE: issued.certFile,
      CLIENT_KEY_FILE: issued.keyFile,
    };
    const { ca, cert } = { ca: authority.ca.cert, cert: issued.cert };
    expect(providersFrom(written(files)).get('openai')?.tls).toEqual({ ca, cert, key: issued.key });
    expect(providersFrom(written({ CA_FILE: files.CA_FILE })).get('openai')?.tls).toEqual({ ca });
    expect(printed(written(files))).not.toContain('PRIVATE KEY');
  });

  test.each([
    [{ CA_FILE: '/no/such.pem' }, 'providers.openai.ca_file (OPENAI_CA_FILE): the file /no/such.pem cannot be read'],
    [{ CA_FILE: '/' }, 'providers.openai.ca_file (OPENAI_CA_FILE): the file / cannot be read'],
    [{ CA_FILE: garbage }, 'has no certificate in PEM'],
    [{ CLIENT_CERT_FILE: issued.certFile }, '(OPENAI_CLIENT_CERT_FILE): needs client_key_file'],
    [{ CLIENT_KEY_FILE: issued.keyFile }, '(OPENAI_CLIENT_KEY_FILE): needs client_cert_file'],
    [
      { CLIENT_CERT_FILE: issued.certFile, CLIENT_KEY_FILE: other.keyFile },
      `(OPENAI_CLIENT_KEY_FILE): the file ${other.keyFile} is not the key of client_cert_file`,
    ],
    [
      { CA_FILE: authority.ca.certFile, BASE_URL: 'http://openai.test/v1' },
      'needs a base_url that begins with https://',
    ],
  ])('%j are refused', (files, message) => {
    const text = problem(written(files as Record<string, string>));
    expect(text).toContain(message);
    expect(text).not.toContain('hidden');
  });
});

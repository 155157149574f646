import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { script, writeDashboard } from '../support/built-dashboard.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { errorOf, json } from '../support/with-gateway.ts';

const folder = mkdtempSync(join(tmpdir(), 'chancery-dashboard-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** Beside the files of the build: one of another type, and a link out of the folder. */
function writeDashboardWithMore(name: string): string {
  const dist = writeDashboard(join(folder, name));
  writeFileSync(join(dist, 'assets/notes.md'), 'not served');
  writeFileSync(join(folder, 'secret.js'), 'outside');
  symlinkSync(join(folder, 'secret.js'), join(dist, 'assets/linked.js'));
  return dist;
}

interface RawAnswer {
  readonly status: number;
  readonly headers: NodeJS.Dict<string | string[]>;
  readonly body: Buffer;
}

/** The path and the headers are sent unchanged, and the body is not decoded. */
function send(url: string, path: string, options: { method?: string; headers?: Record<string, string> } = {}) {
  const { hostname, port } = new URL(url);
  return new Promise<RawAnswer>((resolve, reject) => {
    const sent = request({ hostname, port, path, agent: false, ...options }, (answer) => {
      const pieces: Buffer[] = [];
      answer.on('data', (piece: Buffer) => pieces.push(piece));
      answer.on('end', () =>
        resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body: Buffer.concat(pieces) }),
      );
    });
    sent.on('error', reject).end();
  });
}

describe('the dashboard', () => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await startTestGateway({ dashboardFolder: writeDashboardWithMore('dist') });
  });
  afterAll(() => gateway.close());

  const get = (path: string, headers: Record<string, string> = {}) => send(gateway.url, path, { headers });

  describe('its page', () => {
    it.each([
      ['/admin/dashboard', 'static/'],
      ['/admin/dashboard?exchange=1', 'static/'],
      ['/admin/dashboard/', '../static/'],
      ['/admin/dashboard/audit', '../static/'],
      ['/admin/dashboard/exchanges/0199/events', '../../../static/'],
      ['/admin/dashboard/a%2Fb', '../static/'],
      ['http://other.example/admin/dashboard/audit', '../static/'],
      ['/admin/dashboard/audit#/a/b', '../static/'],
      ['/admin/dashboard//x', '../../static/'],
      ['/admin/dashboard/config', '../static/'],
      ['/admin/dashboard/a?back=/x/y/z', '../static/'],
    ])('at %s finds its assets at %s', async (path, prefix) => {
      const { status, headers, body } = await get(path);
      expect(status).toBe(200);
      expect(headers['content-type']).toBe('text/html; charset=utf-8');
      expect(body.toString()).toContain(`src="${prefix}app-1.js"`);
      expect(body.toString()).toContain(`href="${prefix}app-1.css"`);
      // As a browser resolves it, with a prefix that a proxy removes.
      const address = path.replace('http://other.example', '');
      const script = new URL(`${prefix}app-1.js`, `http://proxy/gateway${address}`);
      expect(script.pathname).toBe('/gateway/admin/static/app-1.js');
    });

    it('is checked for changes at each visit', async () => {
      const first = await get('/admin/dashboard');
      expect(first.headers['cache-control']).toBe('no-cache');
      const etag = String(first.headers['etag']);
      for (const known of [etag, `W/${etag}`, `"other", ${etag}`, '*']) {
        const again = await get('/admin/dashboard', { 'if-none-match': known });
        expect([again.status, again.body.length, again.headers['etag']]).toEqual([304, 0, etag]);
        expect(again.headers['content-security-policy']).toBe(first.headers['content-security-policy']);
      }
      expect((await get('/admin/dashboard', { 'if-none-match': '"other"' })).status).toBe(200);
      // Another depth has other URLs.
      expect((await get('/admin/dashboard/a', { 'if-none-match': etag })).status).toBe(200);
    });

    it('has its headers on HEAD, without a body', async () => {
      const page = await get('/admin/dashboard/audit');
      const head = await send(gateway.url, '/admin/dashboard/audit', { method: 'HEAD' });
      expect(head.body.length).toBe(0);
      expect(head.headers['content-length']).toBe(String(page.body.length));
      expect(head.headers['etag']).toBe(page.headers['etag']);
    });
  });

  describe('an asset', () => {
    it('is cached for ever', async () => {
      const { status, headers, body } = await get('/admin/static/app-1.js');
      expect(status).toBe(200);
      expect(headers['cache-control']).toBe('public, max-age=31536000, immutable');
      expect(headers['content-type']).toBe('text/javascript; charset=utf-8');
      expect(headers['vary']).toBe('Accept-Encoding');
      expect(headers['content-encoding']).toBeUndefined();
      expect(body.toString()).toBe(script);
    });

    it.each([
      ['gzip, deflate, br, zstd', 'br'],
      ['gzip', 'gzip'],
      ['br;q=0.5, gzip', 'gzip'],
      ['br;q=0, gzip;q=0.1', 'gzip'],
      ['BR', 'br'],
      ['*', 'br'],
      ['*;q=0', undefined],
      ['br;q=0.2, identity', undefined],
      ['identity;q=0, gzip;q=0', undefined],
      ['br;q=many', undefined],
      ['deflate', undefined],
      ['', undefined],
      [`${'x,'.repeat(40)}br`, undefined],
    ])('for Accept-Encoding %j is encoded as %s', async (accepted, coding) => {
      const { headers, body } = await get('/admin/static/app-1.js', { 'accept-encoding': accepted });
      expect(headers['content-encoding']).toBe(coding);
      expect(headers['vary']).toBe('Accept-Encoding');
      expect(headers['content-length']).toBe(String(body.length));
      const decode = { br: brotliDecompressSync, gzip: gunzipSync }[coding ?? ''] ?? ((plain: Buffer) => plain);
      expect(decode(body).toString()).toBe(script);
      if (coding !== undefined) expect(body.length).toBeLessThan(script.length / 10);
    });

    it('without compressed variants is sent as it is', async () => {
      const { headers, body } = await get('/admin/static/app-1.css', { 'accept-encoding': 'br' });
      expect(headers['content-encoding']).toBeUndefined();
      expect(headers['content-type']).toBe('text/css; charset=utf-8');
      expect(body.toString()).toBe('body { margin: 0 }');
    });

    it('may be in a folder', async () => {
      const { headers, body } = await get('/admin/static/fonts/text.woff2');
      expect(headers['content-type']).toBe('font/woff2');
      expect([...body]).toEqual([0, 1, 2]);
    });

    it.each([
      '/admin/static/app-2.js',
      '/admin/static/',
      '/admin/static/fonts',
      '/admin/static/../index.html',
      '/admin/static/..%2findex.html',
      '/admin/static/%2e%2e/%2e%2e/package.json',
      '/admin/static/..%5c..%5cpackage.json',
      '/admin/static//etc/passwd',
      '/admin/static/app-1.js.br',
      '/admin/static/app-1.js%00.css',
      '/admin/static/notes.md',
      '/admin/static/linked.js',
      '/admin/static/__proto__',
    ])('that the build did not write is not found: %s', async (path) => {
      const { status, headers, body } = await get(path);
      expect(status).toBe(404);
      expect(headers['cache-control']).toBe('no-store');
      expect(JSON.parse(body.toString()).error.code).toBe('unknown_route');
    });
  });

  it.each(['/admin/dashboard', '/admin/dashboard/audit', '/admin/static/app-1.js', '/admin/static/none.js'])(
    '%s has the security headers',
    async (path) => {
      const { headers } = await get(path);
      expect(headers).toMatchObject({
        'content-security-policy':
          "default-src 'self'; img-src 'self' data: blob:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; " +
          "object-src 'none'; require-trusted-types-for 'script'; trusted-types chancery",
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        'cross-origin-opener-policy': 'same-origin',
        'cross-origin-resource-policy': 'same-origin',
        'permissions-policy': 'camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()',
      });
    },
  );

  it.each(['POST', 'PUT', 'DELETE', 'OPTIONS'])('does not support %s', async (method) => {
    for (const path of ['/admin/dashboard', '/admin/dashboard/a/b', '/admin/static/app-1.js']) {
      const { status, headers } = await send(gateway.url, path, { method });
      expect([status, headers['allow']]).toEqual([405, 'GET, HEAD']);
    }
  });

  it('needs no key and ignores a wrong one', async () => {
    for (const path of ['/admin/dashboard', '/admin/static/app-1.js']) {
      expect((await get(path, { authorization: 'Bearer wrong' })).status).toBe(200);
    }
  });

  it('is not an older path of the admin API', async () => {
    expect((await get('/admin/api/v1/dashboard')).status).toBe(401);
    await errorOf(await gateway.fetch('/admin/api/v1/dashboard'), 404);
    expect((await gateway.fetch('/admin/api/v1/dashboard/config')).status).toBe(200);
  });

  it('leaves no exchange in the record', async () => {
    await get('/admin/dashboard');
    await get('/admin/static/app-1.js', { authorization: 'Bearer test-master-key' });
    expect((await json(await gateway.fetch('/admin/audit/log'))).entries).toEqual([]);
  });

  it('is on in the runtime configuration', async () => {
    expect(await json(await gateway.fetch('/admin/runtime/config'))).toMatchObject({ ADMIN_UI_ENABLED: 'on' });
  });
});

describe('a dashboard for pages of other origins', () => {
  it('varies by origin and encoding', async () => {
    const gateway = await startTestGateway({
      dashboardFolder: writeDashboard(join(folder, 'cors')),
      env: { CORS_ORIGINS: 'https://app.example' },
    });
    const { headers } = await send(gateway.url, '/admin/static/app-1.js', {
      headers: { origin: 'https://app.example', 'accept-encoding': 'br' },
    });
    expect(String(headers['vary']).split(', ').sort()).toEqual(['Accept-Encoding', 'Origin']);
    await gateway.close();
  });
});

describe('a dashboard that was not built', () => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await startTestGateway({ dashboardFolder: join(folder, 'nowhere') });
  });
  afterAll(() => gateway.close());

  it('answers 503 with a sentence that tells how to build it', async () => {
    for (const path of ['/admin/dashboard', '/admin/dashboard/audit']) {
      const { status, headers, body } = await send(gateway.url, path);
      expect(status).toBe(503);
      expect(headers['content-type']).toBe('text/plain; charset=utf-8');
      expect(headers['cache-control']).toBe('no-store');
      expect(body.toString()).toBe(
        'The dashboard was not built. Build it with "npm run dashboard" and restart the gateway.\n',
      );
    }
  });

  it('has no assets', async () => {
    expect((await send(gateway.url, '/admin/static/app-1.js')).status).toBe(404);
  });

  it('does not affect other routes', async () => {
    expect((await gateway.fetch('/admin/access')).status).toBe(200);
    expect(gateway.gateway.dashboard).toBe('not built');
  });
});

describe.each([
  ['ADMIN_UI_ENABLED=false', { ADMIN_UI_ENABLED: 'false' }],
  ['ADMIN_ENDPOINTS_ENABLED=false', { ADMIN_ENDPOINTS_ENABLED: 'false' }],
] as const)('with %s', (_, env: Record<string, string>) => {
  it('the addresses of the dashboard are unknown', async () => {
    const gateway = await startTestGateway({ dashboardFolder: writeDashboard(join(folder, 'off')), env });
    expect(gateway.gateway.dashboard).toBe('off');
    for (const path of ['/admin/dashboard', '/admin/dashboard/', '/admin/dashboard/a', '/admin/static/app-1.js']) {
      expect((await errorOf(await gateway.fetch(path), 404)).code).toBe('unknown_route');
    }
    const config = await gateway.fetch('/admin/runtime/config');
    if (config.ok) expect(await json(config)).toMatchObject({ ADMIN_UI_ENABLED: 'off' });
    await gateway.close();
  });
});

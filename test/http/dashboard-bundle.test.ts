/** The dashboard of this project, as it is built and served. Skipped where its packages cannot be installed. */
import { execFileSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isDashboardCurrent } from '../../scripts/dashboard-build.mjs';
import { readBundle } from '../../src/http/dashboard/bundle.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';

const root = dirname(dirname(import.meta.dirname));
/** Of the page with everything that it loads before it shows something, compressed by gzip. */
const FIRST_PAGE_BYTES = 120 * 1024;

function isBuilt(): boolean {
  if (isDashboardCurrent(root)) return true;
  try {
    execFileSync(process.execPath, ['scripts/dashboard.mjs'], { cwd: root, stdio: 'pipe' });
    return true;
  } catch (error) {
    console.log(`skipped: the dashboard could not be built: ${error}`);
    return false;
  }
}

const bundle = isBuilt() ? readBundle(join(root, 'dashboard/dist')) : undefined;
const page = bundle?.page ?? '';
const textOf = (name: string) => bundle?.assets.get(name)?.plain.toString() ?? '';

/** The names of the assets that a page or a script loads at once: links, scripts, and static imports of those. */
function loadedAtOnce(source: string, found = new Set<string>()): Set<string> {
  const references = source.matchAll(/(?:(?:href|src)="\.\/assets\/|(?:from|import)\s*["']\.\/)([^"']+)["']/g);
  for (const [, name = ''] of references) {
    if (found.has(name)) continue;
    found.add(name);
    if (name.endsWith('.js')) loadedAtOnce(textOf(name), found);
  }
  return found;
}

describe.skipIf(bundle === undefined)('the bundle of the dashboard', () => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await startTestGateway();
  });
  afterAll(() => gateway.close());

  it(`has a first page of at most ${FIRST_PAGE_BYTES} bytes`, () => {
    const names = [...loadedAtOnce(page)];
    expect(names.some((name) => name.endsWith('.js'))).toBe(true);
    expect(names.some((name) => name.endsWith('.css'))).toBe(true);
    const sizes = names.map((name) => [name, gzipSync(textOf(name)).length] as const);
    const total = sizes.reduce((sum, [, bytes]) => sum + bytes, gzipSync(page).length);
    expect(total, JSON.stringify(Object.fromEntries(sizes))).toBeLessThanOrEqual(FIRST_PAGE_BYTES);
  });

  it('loads the pages on demand', () => {
    const onDemand = [...(bundle?.assets.keys() ?? [])].filter(
      (name) => name.endsWith('.js') && !loadedAtOnce(page).has(name),
    );
    expect(onDemand.length).toBeGreaterThanOrEqual(6);
  });

  it('has hashed names, and a compressed variant of every larger text', () => {
    for (const [name, { type, plain, br, gzip }] of bundle?.assets ?? []) {
      expect(name).toMatch(/-[\w-]{8}\.\w+$/);
      if (!/^text|json|svg/.test(type) || plain.length < 1000) continue;
      expect(br?.length, name).toBeLessThan(plain.length);
      expect(gzip?.length, name).toBeLessThan(plain.length);
    }
  });

  it('has no inline script or style, and nothing of another host', () => {
    expect(page).not.toMatch(/<style|\sstyle=|\son\w+=|javascript:/i);
    for (const [tag] of page.matchAll(/<script[^>]*>/g)) expect(tag).toContain(' src="./assets/');
    expect(page.match(/(?:href|src)="(?!\.\/assets\/)[^"]*"/g)).toBeNull();
    for (const [name, { type }] of bundle?.assets ?? []) {
      if (type.startsWith('text/css')) expect(textOf(name), name).not.toMatch(/url\(\s*["']?(https?:)?\/\//i);
    }
  });

  it.each(['/admin/dashboard', '/admin/dashboard/', '/admin/dashboard/exchanges/1'])(
    'is served: every URL of the page at %s leads to its asset',
    async (path) => {
      const answer = await fetch(`${gateway.url}${path}`);
      const served = await answer.text();
      const urls = [...served.matchAll(/(?:href|src)="([^"]+)"/g)].map(([, url = '']) => url);
      expect(urls.length).toBeGreaterThanOrEqual(2);
      for (const url of urls) expect((await fetch(new URL(url, answer.url))).status, url).toBe(200);
    },
  );
});

/** What protects the page: the policy, its enforcement, and where the key is. */
import { expect, it } from 'vitest';
import { expectClean, keyField, logIn } from './support/dashboard.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

declare const document: {
  createElement(name: 'script'): { textContent: string };
  createElement(name: 'img'): { src: string };
  createElement(name: 'div'): { innerHTML: string };
  readonly head: { append(element: object): void };
  readonly body: { append(element: object): void };
};
declare const window: { readonly executed?: boolean };

describeInChromium('the content security policy of the dashboard', () => {
  const dashboard = withDashboard({ data: 'shared empty' });

  it('is sent with the page and with every script', async () => {
    const page = await fetch(`${dashboard.url}/admin/dashboard/audit`);
    const policy = page.headers.get('content-security-policy') ?? '';
    for (const part of [
      "default-src 'self'",
      "img-src 'self' data: blob:",
      "frame-ancestors 'none'",
      "require-trusted-types-for 'script'",
    ]) {
      expect(policy.split('; ')).toContain(part);
    }
    expect(policy).not.toMatch(/unsafe|https?:|\*/);
    const html = await page.text();
    expect(html).not.toMatch(/<script(?![^>]*\bsrc=)|<style|\son\w+=|\sstyle=/);
    const assets = [...html.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path = '']) => new URL(path, page.url));
    expect(assets.length).toBeGreaterThan(1);
    for (const asset of assets) {
      expect(asset.origin).toBe(dashboard.url);
      const answer = await fetch(asset);
      expect(answer.status, asset.href).toBe(200);
      expect(answer.headers.get('cache-control')).toMatch(/immutable/);
      expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
      await answer.arrayBuffer();
    }
  });

  // Each of these is a way in which recorded text could become code; the browser must refuse all of them.
  it('refuses inline scripts, markup from strings and remote images', async () => {
    const opened = await dashboard.open('/settings');
    const blocked: string[] = [];
    opened.page.on('requestfailed', (request) => blocked.push(`${request.url()} ${request.failure()?.errorText}`));
    const refused = await opened.page.evaluate(() => {
      const errors: string[] = [];
      const attempt = (name: string, act: () => void) => {
        try {
          act();
        } catch (error) {
          errors.push(`${name}: ${(error as Error).name}`);
        }
      };
      attempt('script', () => {
        const script = document.createElement('script');
        script.textContent = 'window.executed = true';
        document.head.append(script);
      });
      attempt('markup', () => {
        document.createElement('div').innerHTML = '<img src=x onerror="window.executed = true">';
      });
      attempt('image', () => {
        const image = document.createElement('img');
        image.src = 'https://images.example.com/pixel.png';
        document.body.append(image);
      });
      return errors;
    });
    expect(refused).toEqual(['script: TypeError', 'markup: TypeError']);
    expect(await opened.page.evaluate(() => window.executed)).toBeUndefined();
    await expect
      .poll(() =>
        opened.findings
          .filter(({ kind }) => kind === 'csp')
          .map(({ text }) => text)
          .join('\n'),
      )
      .toMatch(/img-src blocked https:\/\/images\.example\.com\/pixel\.png/);
    expect(blocked).toEqual(['https://images.example.com/pixel.png csp']);
  });

  it('keeps the page out of frames', async () => {
    const context = await dashboard.browser.newContext();
    const page = await context.newPage();
    await page.route('http://frame.test/', (route) =>
      route.fulfill({ contentType: 'text/html', body: `<iframe src="${dashboard.url}/admin/dashboard"></iframe>` }),
    );
    await page.goto('http://frame.test/');
    const frame = page.frames()[1];
    await expect.poll(() => frame?.url()).toMatch(/chrome-error/);
    await context.close();
  });

  it('is not violated by entering a key and opening each page', async () => {
    const opened = await dashboard.open('/', { key: null });
    await keyField(opened.page).fill('wrong-key');
    await opened.page.keyboard.press('Enter');
    await opened.page.getByRole('alert').waitFor();
    const refusals = opened.expectFindings(({ text }) => text.includes('401'));
    expect(refusals.length).toBeGreaterThan(0);
    await logIn(opened.page, 'process-test-key');
    for (const title of ['Live', 'Audit', 'Sessions', 'Usage', 'Overview']) {
      await opened.page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: title }).click();
      await opened.page.getByRole('heading', { level: 1, name: title }).waitFor();
    }
    expectClean(opened);
  });
});

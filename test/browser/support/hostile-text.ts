/** Texts that attack the reader of a page, and the check that nothing of them had an effect. */
import { expect } from 'vitest';
import { expectClean, type OpenPage, shownText } from './dashboard.ts';

declare const window: { readonly executed?: unknown };

export const script = '<script>window.executed=1</script>';
export const handler = '"><img src=x onerror="window.executed=1"><svg onload=window.executed=1>';
export const ansi = '\u001b[31mred\u001b[0m\u001b]8;;https://elsewhere.example/\u0007link\u001b]8;;\u0007\u001b[2J';
/** RIGHT-TO-LEFT OVERRIDE, isolates, zero-width characters, a byte order mark, and tag characters. */
export const bidi = 'user\u202enimda\u2066\u2069 pay\u200bpal\u200d.\ufeffcom \u{e0041}\u{e0042}';
export const links =
  '[click](javascript:window.executed=1) ![p](https://elsewhere.example/p.png) <a href="javascript:window.executed=1">x</a> ' +
  '<link rel=stylesheet href=https://elsewhere.example/s.css> @import url(https://elsewhere.example/i.css);';
export const template = '{{constructor.constructor("window.executed=1")()}} <%= window.executed=1 %> __proto__';
export const everything = [script, handler, ansi, bidi, links, template].join('\n');
/** Code points that must never reach the screen as they are: control, direction, zero width, tags. */
const invisible = [
  0x1b, 0x07, 0x200b, 0x200d, 0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068, 0x2069, 0xfeff, 0xe0041,
];

function invisibleIn(text: string): string[] {
  const found = invisible.filter((point) => text.includes(String.fromCodePoint(point)));
  return found.map((point) => `U+${point.toString(16).toUpperCase()}`);
}

/** @throws when anything has run, was loaded, or is a link that runs something */
export async function expectHarmless(opened: OpenPage, url: string): Promise<void> {
  const { page } = opened;
  expect(await page.evaluate(() => window.executed)).toBeUndefined();
  for (const frame of page.frames()) expect(frame.url()).toMatch(new RegExp(`^${url}/`));
  const main = page.locator('main');
  expect(await main.locator('script, iframe, object, embed, link, style, svg[onload]').count()).toBe(0);
  const links = await main.locator('a').evaluateAll((all) => all.map((link) => link.getAttribute('href') ?? ''));
  for (const href of links) expect(href).not.toMatch(/^\s*(?:javascript|data|vbscript):|elsewhere/i);
  const images = await main.locator('img').evaluateAll((all) => all.map((image) => image.getAttribute('src') ?? ''));
  for (const source of images) expect(source).toMatch(/^(?:blob:|data:image\/(?:png|jpeg|gif|webp))/);
  expect(invisibleIn(await shownText(main))).toEqual([]);
  expect(invisibleIn(await page.title())).toEqual([]);
  expectClean(opened);
}

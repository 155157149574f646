/** Rules of WCAG 2.2, levels A and AA, and unique landmarks, checked by axe in the light and in the dark theme. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Page } from 'playwright-core';

const source = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
/** The rules whose result depends on the colours of the theme, which is all that a theme changes. */
const rulesOfColours = ['color-contrast', 'link-in-text-block'];
const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];

interface AxeResults {
  readonly violations: readonly {
    readonly id: string;
    readonly help: string;
    readonly nodes: readonly { readonly target: readonly unknown[]; readonly failureSummary?: string }[];
  }[];
}

interface AxeOptions {
  readonly runOnly: { readonly type: 'tag' | 'rule'; readonly values: readonly string[] };
  readonly rules?: Readonly<Record<string, { readonly enabled: boolean }>>;
}
const everyRule: AxeOptions = {
  runOnly: { type: 'tag', values: tags },
  rules: { 'landmark-unique': { enabled: true } },
};

declare const axe: { run(context: unknown, options: object): Promise<AxeResults> };
declare const document: {
  querySelector(selector: string): object | null;
  readonly documentElement: { readonly dataset: Record<string, string | undefined> };
  getAnimations(): readonly { readonly playState: string }[];
};

/**
 * Each violation in one sentence: theme, rule, help and the first elements; empty when there are none.
 * Of a page below a modal dialog, which nothing reaches, only the dialog is checked.
 */
export async function accessibilityViolations(page: Page): Promise<string[]> {
  const found: string[] = [];
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await page.waitForFunction(
      (theme) =>
        document.documentElement.dataset['theme'] === theme &&
        // Under a dialog, transitions that have ended are still listed.
        document.getAnimations().every(({ playState }) => playState !== 'running'),
      colorScheme,
    );
    const options =
      colorScheme === 'light' ? everyRule : { runOnly: { type: 'rule', values: rulesOfColours } as const };
    found.push(...(await violationsNow(page, options)).map((text) => `${colorScheme}: ${text}`));
  }
  await page.emulateMedia({ colorScheme: null, reducedMotion: null });
  return found;
}

async function violationsNow(page: Page, options: AxeOptions): Promise<string[]> {
  // In the debugger's name: the page's policy allows no inline script, and axe must not need an exception from it.
  if (!(await page.evaluate(() => typeof axe === 'object'))) await page.evaluate(source);
  const { violations } = await page.evaluate(
    (given) => axe.run(document.querySelector('dialog:modal') ?? document, given),
    { ...options, resultTypes: ['violations'] },
  );
  return violations.map(({ id, help, nodes }) => {
    const first = nodes.slice(0, 3).map(({ target, failureSummary }) => `${target.join(' ')}: ${failureSummary ?? ''}`);
    return `${id}: ${help} (${nodes.length} elements) ${first.join(' | ')}`;
  });
}

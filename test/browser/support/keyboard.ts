/** What the Tab key reaches, and whether the focus can be seen there. */
import type { Page } from 'playwright-core';

export interface TabStops {
  /** Visible controls that the Tab key did not reach. */
  readonly missed: readonly string[];
  /** Focused controls without a visible focus, or outside of the window. */
  readonly invisible: readonly string[];
}

interface Shown {
  readonly tagName: string;
  readonly id: string;
  readonly textContent: string | null;
  readonly tabIndex: number;
  readonly dataset: Record<string, string | undefined>;
  readonly parentElement: Shown | null;
  checkVisibility(options: object): boolean;
  getBoundingClientRect(): { top: number; bottom: number; left: number; right: number; width: number; height: number };
  getAttribute(name: string): string | null;
  matches(selector: string): boolean;
  closest(selector: string): Shown | null;
}
declare const document: {
  readonly activeElement: Shown | null;
  querySelectorAll(selector: string): Iterable<Shown>;
};
declare const window: { readonly innerHeight: number; readonly innerWidth: number };
declare function getComputedStyle(element: Shown): {
  outlineStyle: string;
  outlineWidth: string;
  boxShadow: string;
};

const controls =
  'a[href], button:not([disabled]), input:not([disabled]), select:not([disabled]), textarea:not([disabled]), summary, [tabindex]';

/** Presses Tab from the beginning of the page until every control had the focus, or as often as there are controls. */
export async function tabStops(page: Page, most = 400): Promise<TabStops> {
  const wanted = await page.evaluate((selector) => {
    let n = 0;
    for (const element of document.querySelectorAll(selector)) {
      const visible = element.checkVisibility({ checkVisibilityCSS: true, checkOpacity: true });
      // Of a group of radio buttons, the Tab key reaches only the chosen one.
      const ofGroup = element.matches('input[type=radio]:not(:checked)');
      if (visible && element.tabIndex >= 0 && !ofGroup) element.dataset['stop'] = String(n++);
    }
    return n;
  }, controls);
  const reached = new Set<string>();
  const invisible = new Set<string>();
  for (let pressed = 0; pressed < Math.min(most, wanted + 10) && reached.size < wanted; pressed++) {
    await page.keyboard.press('Tab');
    const focused = await page.evaluate(() => {
      const element = document.activeElement;
      if (element === null) return undefined;
      const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(element);
      const { top, bottom, left, right } = element.getBoundingClientRect();
      const inWindow = bottom > 0 && top < window.innerHeight && right > 0 && left < window.innerWidth;
      const hasOutline = (outlineStyle !== 'none' && outlineWidth !== '0px') || boxShadow !== 'none';
      const name = `${element.tagName.toLowerCase()} ${element.getAttribute('aria-label') ?? element.textContent?.trim().slice(0, 40)}`;
      return { stop: element.dataset['stop'], isVisible: inWindow && hasOutline, name };
    });
    if (focused?.stop !== undefined) {
      reached.add(focused.stop);
      if (!focused.isVisible) invisible.add(focused.name);
    }
  }
  const missed = await page.evaluate(
    (stops) => {
      const names: string[] = [];
      for (const element of document.querySelectorAll('[data-stop]')) {
        if (stops.includes(element.dataset['stop'] ?? '')) continue;
        names.push(
          `${element.tagName.toLowerCase()} ${element.getAttribute('aria-label') ?? element.textContent?.trim().slice(0, 40)}`,
        );
      }
      return names;
    },
    [...reached],
  );
  return { missed: missed.slice(0, 20), invisible: [...invisible].slice(0, 20) };
}

/** Counts what a person does to answer a question: clicks, keys pressed and texts entered. */
import type { Locator, Page } from 'playwright-core';

export interface Steps {
  readonly clicks: number;
  readonly keys: number;
  /** Texts typed into fields, each counted once. */
  readonly texts: number;
  click(target: Locator): Promise<void>;
  press(key: string): Promise<void>;
  fill(field: Locator, text: string): Promise<void>;
  select(field: Locator, option: string): Promise<void>;
}

export function countSteps(page: Page): Steps {
  const counted = { clicks: 0, keys: 0, texts: 0 };
  return {
    get clicks() {
      return counted.clicks;
    },
    get keys() {
      return counted.keys;
    },
    get texts() {
      return counted.texts;
    },
    async click(target) {
      await target.click();
      counted.clicks += 1;
    },
    async press(key) {
      await page.keyboard.press(key);
      counted.keys += 1;
    },
    async fill(field, text) {
      await field.fill(text);
      counted.texts += 1;
    },
    /** Opening the list and choosing in it are one click each. */
    async select(field, option) {
      await field.selectOption(option);
      counted.clicks += 2;
    },
  };
}

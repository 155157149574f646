/** Conditional changes of the dashboard. */
import { globSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

const pages = globSync('dashboard/src/pages/**/*.{ts,tsx}').map((file) => ({ file, text: readFileSync(file, 'utf8') }));

it('take their revision from the dialog, which shows both versions after a conflict', () => {
  const sending = pages.filter(({ text }) => text.includes('sendChange({'));
  expect(sending.length).toBeGreaterThan(20);
  const own = sending.flatMap(({ file, text }) =>
    [...text.matchAll(/ifMatch: (?!ifMatch|string)\S+/g)].map(([found]) => `${file}: ${found}`),
  );
  expect(own).toEqual([]);
});

it('have a dialog with the version that they are based on', () => {
  const without = pages.flatMap(({ file, text }) =>
    [...text.matchAll(/<ConfirmDialog\b[\s\S]*?\/>\n/g)]
      .filter(([dialog]) => /\bifMatch\b/.test(dialog) && !dialog.includes('basis='))
      .map(([dialog]) => `${file}: ${dialog.slice(0, 80)}`),
  );
  expect(without).toEqual([]);
});

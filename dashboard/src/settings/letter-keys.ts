/**
 * Whether single letters and signs act as commands. WCAG 2.2, 2.1.4 "Character Key Shortcuts", requires that they can be
 * turned off: speech input types words into the page.
 */
import { storedSignal } from './stored.ts';

export const letterKeys = storedSignal<boolean>('letter-keys', true, (stored) =>
  typeof stored === 'boolean' ? stored : undefined,
);

/** A reset of all budgets or limits needs an explicit confirmation in the body. */
import { z } from 'zod';
import { refusals } from '../../commands/refusal.ts';

export const resetRequest = z.strictObject({ confirmation: z.string().optional(), confirm: z.string().optional() });

/** @throws Refusal 400 */
export function confirmed({ confirmation, confirm }: z.infer<typeof resetRequest>): void {
  if ((confirmation ?? confirm)?.trim().toLowerCase() === 'reset') return;
  throw refusals.invalidRequest("'confirmation' must be the word reset.", 'confirmation');
}

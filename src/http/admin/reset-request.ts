/** A reset of all budgets or limits needs an explicit confirmation in the body. */
import { z } from 'zod';
import { refusals } from '../../commands/refusal.ts';
import { globalAdmin } from '../api/declare.ts';
import { jsonAnswer } from '../api/route-schema.ts';

const resetRequest = z.strictObject({
  confirmation: z.string().optional().describe('Required: the word `reset`'),
  confirm: z.string().optional().describe('Older name of `confirmation`'),
});

/** The declaration of a route that resets everything. */
export const resetRoute = (operationId: string, summary: string) =>
  globalAdmin(operationId, summary, {
    body: resetRequest,
    example: { confirmation: 'reset' },
    response: { 200: jsonAnswer('All are reset', z.object({ status: z.literal('ok') })) },
  });

/** @throws Refusal 400 */
export function confirmed({ confirmation, confirm }: z.infer<typeof resetRequest>): void {
  if ((confirmation ?? confirm)?.trim().toLowerCase() === 'reset') return;
  throw refusals.invalidRequest("'confirmation' must be the word reset.", 'confirmation');
}

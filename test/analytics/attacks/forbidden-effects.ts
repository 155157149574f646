/** Descriptions of forbidden effects of an attempt; none when there were none. */

import { type AttackTarget, environmentSecret } from './attack-target.ts';
import type { Attempt } from './attempts/attempt.ts';

/** Of the pieces of text that no answer may hold. */
const passwordEntry = /root:[^:]*:0:0:/;

export async function forbiddenEffectsOf(attempt: Attempt, attackTarget: AttackTarget): Promise<string[]> {
  const effects: string[] = [];
  const name = JSON.stringify({ ...attempt, query: attempt.query.slice(0, 200) });
  for (const { by, status, text } of await attackTarget.attempt(attempt)) {
    const what = (why: string) => effects.push(`${name} by ${by}: ${why}: ${status} ${text.slice(0, 200)}`);
    if (text.includes(attackTarget.canary.content)) what('shows the canary');
    if (text.includes(environmentSecret())) what('shows the environment');
    if (passwordEntry.test(text)) what('shows a file of the system');
    if (attempt.outcome !== 'harmless' && status < 400) what('is answered');
  }
  if ((await attackTarget.ping()) !== 'Ok.\n') effects.push(`${name}: /ping does not answer`);
  return effects;
}

/** Descriptions of forbidden effects of an attempt; none when there were none. */
import type { Attempt } from './attempts/attempt.ts';
import { environmentSecret, type Ground } from './ground.ts';

/** Of the pieces of text that no answer may hold. */
const passwordEntry = /root:[^:]*:0:0:/;

export async function harmOf(attempt: Attempt, ground: Ground): Promise<string[]> {
  const harm: string[] = [];
  const name = JSON.stringify({ ...attempt, query: attempt.query.slice(0, 200) });
  for (const { by, status, text } of await ground.attempt(attempt)) {
    const what = (why: string) => harm.push(`${name} by ${by}: ${why}: ${status} ${text.slice(0, 200)}`);
    if (text.includes(ground.canary.content)) what('shows the canary');
    if (text.includes(environmentSecret())) what('shows the environment');
    if (passwordEntry.test(text)) what('shows a file of the system');
    if (attempt.outcome !== 'harmless' && status < 400) what('is answered');
  }
  if ((await ground.ping()) !== 'Ok.\n') harm.push(`${name}: /ping does not answer`);
  return harm;
}

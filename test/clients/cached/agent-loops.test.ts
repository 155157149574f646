/** Agents with tools, whose tool calls come from the response cache too; every test twice. */
import { someOf } from '../../support/seed.ts';
import { twiceThroughCache } from '../../support/twice-through-cache.ts';

const files = someOf([
  () => import('../agents.test.ts'),
  () => import('../langchain.test.ts'),
  () => import('../ai-sdk-responses.test.ts'),
]);

twiceThroughCache(
  async () => {
    for (const load of files) await load();
  },
  { toolCalls: true },
);

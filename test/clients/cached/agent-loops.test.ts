/** Agents with tools, whose tool calls come from the response cache too; every test twice. */
import { twiceThroughCache } from '../../support/twice-through-cache.ts';

twiceThroughCache(
  async () => {
    await import('../agents.test.ts');
    await import('../langchain.test.ts');
    await import('../ai-sdk-responses.test.ts');
  },
  { toolCalls: true },
);

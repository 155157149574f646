/** Client libraries with the response cache on, every test twice. */
import { twiceThroughCache } from '../../support/twice-through-cache.ts';

twiceThroughCache(async () => {
  await import('../openai.test.ts');
  await import('../openai-helpers.test.ts');
});

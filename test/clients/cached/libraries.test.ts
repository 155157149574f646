/** Client libraries with the response cache on, every test twice; one of the libraries in each run. */
import { someOf } from '../../support/seed.ts';
import { twiceThroughCache } from '../../support/twice-through-cache.ts';

const libraries = someOf([
  [() => import('../agents.test.ts')],
  [() => import('../ai-sdk.test.ts'), () => import('../ai-sdk-responses.test.ts')],
  [() => import('../anthropic.test.ts')],
  [() => import('../langchain.test.ts')],
  [() => import('../openai.test.ts'), () => import('../openai-helpers.test.ts')],
]);

twiceThroughCache(async () => {
  for (const load of libraries.flat()) await load();
});

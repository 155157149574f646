/** Client libraries with the response cache on, every test twice. */
import { twiceThroughCache } from '../../support/twice-through-cache.ts';

twiceThroughCache(async () => {
  await import('../ai-sdk.test.ts');
  await import('../ai-sdk-responses.test.ts');
});

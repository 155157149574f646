/**
 * The headers with the model as the client requested it, and the provider instance that answered. The answer itself names
 * the model that the provider used; its bytes are often the provider's own and name no instance.
 */
const MODEL = 'x-requested-model';
const PROVIDER = 'x-provider';
/** Longer selectors name no model. */
const MAX_LENGTH = 512;

const PRINTABLE = /^[\x21-\x7e]+$/;

/** @param headers receives the headers, each unless its value is empty: a request may name no model */
export function addRouting(headers: Record<string, string>, model: string, provider: string): void {
  if (model !== '' && model.length <= MAX_LENGTH) headers[MODEL] = headerText(model);
  if (provider !== '') headers[PROVIDER] = headerText(provider);
}

/** Percent-encodes the characters that a header cannot hold, as in a URL. */
function headerText(model: string): string {
  if (PRINTABLE.test(model)) return model;
  return model.toWellFormed().replace(/[^\x21-\x7e]+/g, encodeURIComponent);
}

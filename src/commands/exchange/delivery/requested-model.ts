/** The header with the model as the client requested it; the answer itself names the model that the provider used. */
const NAME = 'x-requested-model';
/** Longer selectors name no model. */
const MAX_LENGTH = 512;

const PRINTABLE = /^[\x21-\x7e]+$/;

/** @param headers receives the header, unless the request names no model */
export function addRequestedModel(headers: Record<string, string>, model: string): void {
  if (model === '' || model.length > MAX_LENGTH) return;
  headers[NAME] = headerText(model);
}

/** Percent-encodes the characters that a header cannot hold, as in a URL. */
function headerText(model: string): string {
  if (PRINTABLE.test(model)) return model;
  return model.toWellFormed().replace(/[^\x21-\x7e]+/g, encodeURIComponent);
}

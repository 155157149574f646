/** The header that names the model as the client requested it: answers name the model that the provider used. */
const NAME = 'x-requested-model';
/** Longer selectors name no model. */
const MAX_LENGTH = 512;

const PRINTABLE = /^[\x21-\x7e]+$/;

/** @param headers to which it is added; not for requests that name no model */
export function addRequestedModel(headers: Record<string, string>, model: string): void {
  if (model === '' || model.length > MAX_LENGTH) return;
  headers[NAME] = headerText(model);
}

/** What no header may hold is percent-encoded, as in a URL. */
function headerText(model: string): string {
  if (PRINTABLE.test(model)) return model;
  return model.toWellFormed().replace(/[^\x21-\x7e]+/g, encodeURIComponent);
}

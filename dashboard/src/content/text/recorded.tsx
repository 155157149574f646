/** A short recorded text in one line, such as a name that a client chose: hidden characters are shown as marks. */
import { visibleText } from './hidden-characters.ts';

/** Longer texts are cut. */
const MOST = 300;

export function Recorded({ text }: { readonly text: string }) {
  const shown = visibleText(text.length > MOST ? `${text.slice(0, MOST)}…` : text);
  return <bdi title={shown.length > 24 ? shown : undefined}>{shown}</bdi>;
}

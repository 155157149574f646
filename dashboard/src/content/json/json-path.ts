/** Where a value is in its document. */
import { elementsOf, type JsonNode, kindOf, memberOf, nameOf } from './json-document.ts';

export type JsonPath = readonly (string | number)[];

/** From the root to the value: names of members and numbers of elements. */
export function pathOf(node: JsonNode): JsonPath {
  const { document } = node;
  const path: (string | number)[] = [];
  for (let index = node.index; index > 0; index = document.parents[index] ?? 0) {
    path.push(nameOf({ document, index }) ?? document.ordinals[index] ?? 0);
  }
  return path.reverse();
}

const plainName = /^[A-Za-z_$][\w$]*$/;

/** The path as code: `messages[0].content`, `["odd name"][2]`; `(root)` for the root. */
export function formatPath(path: JsonPath): string {
  let text = '';
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`;
    else if (plainName.test(step)) text += text === '' ? step : `.${step}`;
    else text += `[${JSON.stringify(step)}]`;
  }
  return text === '' ? '(root)' : text;
}

/** The value at a path; undefined when there is none. Of members with the same name, the last one. */
export function nodeAt(root: JsonNode | undefined, path: JsonPath): JsonNode | undefined {
  let node = root;
  for (const step of path) {
    if (node === undefined) return undefined;
    if (typeof step === 'string') node = memberOf(node, step);
    else node = kindOf(node) === 'array' ? elementsOf(node)[step] : undefined;
  }
  return node;
}

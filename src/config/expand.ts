/** `${VAR}` and `${VAR:-default}` inside the strings of a parsed YAML file; `$${` stands for a literal `${`. */

export interface MissingVariable {
  readonly path: readonly string[];
  readonly variable: string;
}

export interface UnknownReference {
  readonly path: readonly string[];
  /** As it is written; it may be a secret. */
  readonly text: string;
}

export interface ExpandedValue {
  readonly value: unknown;
  /** References to variables that are not set and have no default. They were replaced by empty text. */
  readonly missing: readonly MissingVariable[];
  /** Places of a `${` that begins no reference. It was left as it is. */
  readonly unknown: readonly UnknownReference[];
}

const reference = /\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-((?:[^}\\]|\\.)*))?\}|\$\{[^}]*\}?/g;

/**
 * @param keepsTypes returns for a path whether a value that is one single reference gets the type of its content
 *   (`4096` a number, `true` a boolean); elsewhere a reference yields text
 */
export function expandVariables(
  value: unknown,
  env: Readonly<Record<string, string | undefined>>,
  keepsTypes: (path: readonly string[]) => boolean = () => false,
): ExpandedValue {
  const missing: MissingVariable[] = [];
  const unknown: UnknownReference[] = [];

  const expandText = (text: string, path: readonly string[]): unknown => {
    const expanded = text.replace(reference, (match, variable: string | undefined, fallback: string | undefined) => {
      if (match.startsWith('$$')) return match.slice(1);
      if (variable === undefined) {
        unknown.push({ path, text: match });
        return match;
      }
      const found = env[variable];
      if (found !== undefined && found !== '') return found;
      if (fallback === undefined && found === undefined) missing.push({ path, variable });
      return fallback?.replace(/\\(.)/g, '$1') ?? '';
    });
    const isReference = text.startsWith('${') && text.replace(reference, '') === '';
    return isReference && keepsTypes(path) ? scalarOf(expanded) : expanded;
  };

  const visit = (node: unknown, path: readonly string[]): unknown => {
    if (typeof node === 'string') return expandText(node, path);
    if (Array.isArray(node)) return node.map((entry, index) => visit(entry, [...path, String(index)]));
    if (typeof node !== 'object' || node === null) return node;
    return Object.fromEntries(Object.entries(node).map(([key, entry]) => [key, visit(entry, [...path, key])]));
  };

  return { value: visit(value, []), missing, unknown };
}

/** A text becomes a number only when the number prints as the same text: `007` and digits past 2^53 stay text. */
function scalarOf(text: string): string | number | boolean {
  if (text === 'true' || text === 'false') return text === 'true';
  return text !== '' && String(Number(text)) === text ? Number(text) : text;
}

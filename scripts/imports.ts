/** Reads the imports out of a TypeScript file, without parsing the rest of it. */

export interface Import {
  readonly specifier: string;
  /** Only types are imported: nothing is loaded at run time. */
  readonly typeOnly: boolean;
}

const clause = String.raw`(?:[\w$]+\s*,?\s*)?(?:\*(?:\s*as\s+[\w$]+)?|\{[^}]*\})?`;
const fromStatement = new RegExp(
  String.raw`^[ \t]*(?:import|export)\s+(type\s+)?(${clause})\s*from\s*['"]([^'"]+)['"]`,
  'gm',
);
const bareStatement = /^[ \t]*import\s*['"]([^'"]+)['"]/gm;
const importCall = /(typeof\s+)?\bimport\(\s*['"]([^'"]+)['"]/g;

/** Statements (`import … from`, `export … from`, `import '…'`) and calls (`import('…')`) with a literal specifier. */
export function importsOf(source: string): Import[] {
  const found: Import[] = [];
  for (const [, type, names, specifier] of source.matchAll(fromStatement)) {
    if (specifier !== undefined) found.push({ specifier, typeOnly: type !== undefined || onlyTypes(names ?? '') });
  }
  for (const [, specifier] of source.matchAll(bareStatement)) {
    if (specifier !== undefined) found.push({ specifier, typeOnly: false });
  }
  for (const [, type, specifier] of source.matchAll(importCall)) {
    if (specifier !== undefined) found.push({ specifier, typeOnly: type !== undefined });
  }
  return found;
}

/** `{ type A, type B }`. */
function onlyTypes(names: string): boolean {
  const inBraces = /^\{([^}]*)\}$/.exec(names.trim())?.[1];
  const entries =
    inBraces
      ?.split(',')
      .map((entry) => entry.trim())
      .filter((entry) => entry !== '') ?? [];
  return entries.length > 0 && entries.every((entry) => entry.startsWith('type '));
}

/** Writes a query in another way: comments, quoting, case, Unicode, nesting. The same random source gives the same text. */

/** A number from 0 up to, but not including, `below`. */
export type Random = (below: number) => number;

/** Mulberry32. */
export function randomFrom(seed: number): Random {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below);
  };
}

export function oneOf<T>(random: Random, choices: readonly [T, ...T[]]): T {
  return choices[random(choices.length)] ?? choices[0];
}

/** Characters that ClickHouse treats as blanks. */
const blanks = [' ', '\n', '\t', '\r\n', '/**/', '/* a */', '-- a\n', '# a\n', '#!a\n', '/* -- */', "/* ' */"] as const;
/** Characters that it may treat as blanks, or as the end of something. */
const oddBlanks = [
  ...blanks,
  '/* /* */ */',
  '/* /* */',
  '*/',
  '/*/**/*/',
  '--\r',
  '\v',
  '\f',
  '\u00a0',
  '\u2003',
  '\u200b',
  '\u2028',
  '\u3000',
  '\ufeff',
  '\u0000',
  ';',
  '\\',
] as const;

const pieces = /[A-Za-z_$][\w$]*|'(?:[^'\\]|\\.|'')*'|`[^`]*`|"[^"]*"|\s+|./gsu;

function piecesOf(query: string): readonly string[] {
  return query.match(pieces) ?? [];
}

const isName = (piece: string) => /^[A-Za-z_]/.test(piece);
const isText = (piece: string) => piece.startsWith("'");

/** Means the same to ClickHouse: blanks and comments between tokens, keywords in any case. */
export function rewritten(query: string, random: Random, keywords: ReadonlySet<string>): string {
  return piecesOf(query)
    .map((piece) => {
      if (piece.trim() === '') return ` ${oneOf(random, blanks)} `;
      if (keywords.has(piece.toUpperCase())) return random(2) === 0 ? piece.toLowerCase() : mixedCase(piece, random);
      return piece;
    })
    .join('');
}

/** Looks like something else, and may be no valid query. */
export function obfuscated(query: string, random: Random): string {
  let text = piecesOf(query)
    .map((piece) => {
      if (random(4) > 0) return piece;
      if (piece.trim() === '') return oneOf(random, oddBlanks);
      if (isName(piece)) return otherName(piece, random);
      if (isText(piece)) return otherText(piece, random);
      return random(2) === 0 ? `${piece}${oneOf(random, oddBlanks)}` : `${oneOf(random, oddBlanks)}${piece}`;
    })
    .join('');
  for (let times = random(3); times > 0; times--) text = oneOf(random, nestings)(text);
  return text;
}

function mixedCase(name: string, random: Random): string {
  return [...name].map((letter) => (random(2) === 0 ? letter.toUpperCase() : letter.toLowerCase())).join('');
}

function otherName(name: string, random: Random): string {
  const at = random(name.length);
  const letter = name.charAt(at);
  const code = letter.charCodeAt(0);
  const withLetter = (other: string) => `${name.slice(0, at)}${other}${name.slice(at + 1)}`;
  return oneOf<() => string>(random, [
    () => mixedCase(name, random),
    () => `\`${name}\``,
    () => `"${name}"`,
    () => `\`${withLetter(`\\x${code.toString(16)}`)}\``,
    () => `"${withLetter(`\\x${code.toString(16)}`)}"`,
    () => `\`${withLetter(`\\${code.toString(8)}`)}\``,
    () => `\`${withLetter(`\\u00${code.toString(16)}`)}\``,
    () => `\`${withLetter(`\\${letter}`)}\``,
    () => `\`${name}\\0\``,
    () => `\`${name} \``,
    // Full width, and a letter that looks alike.
    () => withLetter(String.fromCharCode(code + 0xfee0)),
    () => `\`${withLetter(String.fromCharCode(code + 0xfee0))}\``,
    () => withLetter('\u0435'),
    () => `${name}\u200b`,
    () => `\u202e${name}`,
    () => `${name}${oneOf(random, oddBlanks)}`,
    () => `{${name}:Identifier}`,
    () => `(${name})`,
    () => `(x -> ${name}(x))`,
    () => `default.${name}`,
    () => `${name}.${name}`,
  ])();
}

function otherText(text: string, random: Random): string {
  const inside = text.slice(1, -1);
  const at = random(inside.length + 1);
  return oneOf<() => string>(random, [
    () => `$$${inside}$$`,
    () => `$a$${inside}$a$`,
    () => `concat('${inside.slice(0, at)}', '${inside.slice(at)}')`,
    () => `'${inside.slice(0, at)}' || '${inside.slice(at)}'`,
    () => `x'${Buffer.from(inside).toString('hex')}'`,
    () => `unhex('${Buffer.from(inside).toString('hex')}')`,
    () => `base64Decode('${Buffer.from(inside).toString('base64')}')`,
    () => `'${inside.slice(0, at)}\\\n${inside.slice(at)}'`,
    () => `'${inside}\\0'`,
    () => `'file://${inside}'`,
    () => `'${inside}{,x}'`,
    () => `toString('${inside}')`,
    () => `materialize('${inside}')`,
    () => `identity('${inside}')`,
    () => `(SELECT '${inside}')`,
    () => `"${inside}"`,
  ])();
}

const nestings: readonly [(query: string) => string, ...((query: string) => string)[]] = [
  (query) => `(${query})`,
  (query) => `SELECT * FROM (${query})`,
  (query) => `SELECT (${query})`,
  (query) => `SELECT 1 IN (${query})`,
  (query) => `SELECT EXISTS(${query})`,
  (query) => `WITH a AS (${query}) SELECT * FROM a`,
  (query) => `WITH (${query}) AS a SELECT a`,
  (query) => `WITH RECURSIVE a AS (${query} UNION ALL SELECT * FROM a) SELECT * FROM a LIMIT 3`,
  (query) => `SELECT * FROM view(${query})`,
  (query) => `SELECT * FROM chancery.items AS l LEFT JOIN (${query}) AS r ON 1 = 1`,
  (query) => `SELECT * APPLY(toString) FROM (${query})`,
  (query) => `${query} UNION ALL SELECT 1`,
  (query) => `SELECT 1 UNION ALL ${query}`,
  (query) => `EXPLAIN ${query}`,
  (query) => `EXPLAIN SYNTAX ${query}`,
  (query) => `DESCRIBE TABLE (${query})`,
  (query) => `SELECT 1; ${query}`,
  (query) => `${query}; SELECT 1`,
  (query) => `/* SELECT 1 */ ${query}`,
  (query) => `/* /* */ SELECT */ ${query}`,
  (query) => `SELECT '\\'; ${query} --'`,
  (query) => `SELECT 1 /* ' */; ${query} /* ' */`,
  (query) => `${query} FORMAT JSON`,
  (query) => `${query} SETTINGS max_threads = 1`,
  (query) => `${query} FORMAT Vertical SETTINGS max_threads = 1`,
  (query) => `${query} AS a`,
];

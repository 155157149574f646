/** Matches the text itself, in upper or lower case. Not global: `test` keeps no state. */
export function searchPattern(query: string, flags = ''): RegExp {
  return new RegExp(query.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&'), `iu${flags}`);
}

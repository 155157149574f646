/** Whether a field of a form names a file that is stored already. */
export function namesFile(field: string): boolean {
  return /^file_ids?(\[\d*\])?$/.test(field);
}

/** Numbers for people to read. */

export function count(n: number, one: string, many = `${one}s`): string {
  return `${n.toLocaleString('en')} ${n === 1 ? one : many}`;
}

const units = ['KiB', 'MiB', 'GiB', 'TiB'];

/** `12.3 MiB` */
export function bytes(n: number): string {
  if (n < 1024) return count(n, 'byte');
  const power = Math.min(Math.floor(Math.log2(n) / 10), units.length);
  return `${(n / 1024 ** power).toFixed(1)} ${units[power - 1]}`;
}

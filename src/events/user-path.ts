/** The user paths at and above a user path, root first: `/`, `/team`, `/team/alpha` for `/team/alpha`. */
export function pathsAbove(userPath: string): string[] {
  const paths = ['/'];
  for (let slash = userPath.indexOf('/', 1); slash !== -1; slash = userPath.indexOf('/', slash + 1)) {
    paths.push(userPath.slice(0, slash));
  }
  if (userPath !== '/') paths.push(userPath);
  return paths;
}

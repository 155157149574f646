/** The program to run for `src/main.ts`: its bundle, made when it is missing or a source has changed; undefined where none can be made. */
export function prepareBundle(root: string, node: string): Promise<string | undefined>;

/** The bundle of `src/main.ts`, undefined when it is missing or not up to date. */
export function bundledMain(root: string): string | undefined;

/** Where Node keeps compiled code of the bundle. */
export function compileCacheOf(main: string): string;

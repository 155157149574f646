export const gatewayFlags: readonly string[];
export const gatewayEnvironment: Readonly<Record<string, string>>;

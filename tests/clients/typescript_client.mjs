// A client of the TypeScript SDK, told what to do: one JSON order a line on standard input, one answer a line on standard output.
// Its argument is the SDK's major version: `1` (`@modelcontextprotocol/sdk`) or `2` (`@modelcontextprotocol/client`).
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

// What tests drive is installed apart from what they are made of.
const require = createRequire(new URL("../../.servers/package.json", import.meta.url));
const load = (name) => import(pathToFileURL(require.resolve(name)));

async function newest() {
  const { Client, StreamableHTTPClientTransport } = await load("@modelcontextprotocol/client");
  const { StdioClientTransport } = await load("@modelcontextprotocol/client/stdio");
  return { Client, StreamableHTTPClientTransport, StdioClientTransport };
}

async function first() {
  const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
  const { StreamableHTTPClientTransport } = await load("@modelcontextprotocol/sdk/client/streamableHttp.js");
  const { StdioClientTransport } = await load("@modelcontextprotocol/sdk/client/stdio.js");
  return { Client, StreamableHTTPClientTransport, StdioClientTransport };
}

const { Client, StreamableHTTPClientTransport, StdioClientTransport } = await (process.argv[2] === "1" ? first() : newest());

let client;

const orders = {
  async connect({ mode, url, ...entry }) {
    client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode } });
    const transport = url ? new StreamableHTTPClientTransport(new URL(url)) : new StdioClientTransport(entry);
    let version;
    transport.setProtocolVersion = ((set) => (said) => (version = said, set?.call(transport, said)))(transport.setProtocolVersion);
    await client.connect(transport);
    await client.listTools(); // with the schemas at hand, it checks every answer against them
    return client.getNegotiatedProtocolVersion?.() ?? version; // version 1 tells its transport alone
  },
  call: ({ name, arguments: given }) => client.callTool({ name, arguments: given }),
  read: ({ uri }) => client.readResource({ uri }),
  async close() {
    await client.close();
    return null;
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  const answer = await orders[order.do](order).then(
    (result) => ({ result }),
    (error) => ({ error: String(error) }),
  );
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}

import vue from "@vitejs/plugin-vue";

const isCustomElement = (tag) => tag === "conclave-chat";

export default { plugins: [vue({ template: { compilerOptions: { isCustomElement } } })] };

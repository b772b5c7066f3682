// local says whether only this machine reaches the sandbox. Where others do, no click makes a visitor the shopkeeper.
export const local = document.documentElement.dataset.lab === 'local';

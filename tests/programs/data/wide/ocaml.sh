# ocaml: the native compiler, and a program with maps, buffers and exceptions.
cat > work.ml <<'O'
module M = Map.Make (String)
let () =
  let m = ref M.empty in
  for i = 0 to 100_000 do
    let k = "k" ^ string_of_int (i * 7919 mod 5003) in
    m := M.update k (function None -> Some [ i ] | Some l -> Some (i :: l)) !m
  done;
  Printf.printf "keys %d %d\n" (M.cardinal !m) (List.length (M.find "k17" !m));
  let b = Buffer.create 16 in
  M.iter (fun k l -> Buffer.add_string b k; List.iter (fun i -> Buffer.add_string b (string_of_int i)) l) !m;
  Printf.printf "text %d %s\n" (Buffer.length b) (Digest.to_hex (Digest.string (Buffer.contents b)));
  let rec make d = if d = 0 then [] else make (d - 1) @ [ d ] in
  Printf.printf "list %d\n" (List.fold_left ( + ) 0 (make 2000));
  let a = Array.init 300_000 (fun i -> i * 31 mod 100_003) in
  Array.sort compare a;
  Printf.printf "sorted %d %d\n" a.(0) a.(150_000)
O
ocamlopt work.ml -o work
./work
ocaml work.ml
